"""Refusal: the server's answer to an invalid event."""

from __future__ import annotations

from typing import Any


class Refusal(Exception):
    """Becomes an `error` event; the connection goes on.

    Args:
        message: Similar to the service's text.
        code: The protocol's, such as `"invalid_value"`.
        param: The wrong field.
        kind: The error's `type`.
    """

    def __init__(self, message: str, *, code: str, param: str | None = None, kind: str = "invalid_request_error"):
        super().__init__(message)
        self.code = code
        self.param = param
        self.kind = kind

    def error(self, event_id: str | None) -> dict[str, Any]:
        """Return the event's `error` field."""
        return {
            "type": self.kind,
            "code": self.code,
            "message": str(self),
            "param": self.param,
            "event_id": event_id,
        }


def needed(holder: dict[str, Any], name: str, kind: type | tuple[type, ...], path: str = "") -> Any:
    """Return a field that must be there and of this type.

    Raises:
        Refusal: It is not.
    """
    param = f"{path}.{name}" if path else name
    if name not in holder:
        raise Refusal(f"Missing required parameter: '{param}'.", code="missing_required_parameter", param=param)
    value = holder[name]
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise Refusal(f"Invalid type for '{param}': got {type(value).__name__}.", code="invalid_type", param=param)
    return value
