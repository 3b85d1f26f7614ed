"""Maps the SDK's and the websocket's errors to the error tree; a server's text is left out, since it may quote."""

from __future__ import annotations

from google.genai import errors
from websockets import exceptions

from vivavoce.pipelines.core.errors import (
    ProviderConnectionError,
    ProviderError,
    ProviderProtocolError,
    ProviderStatusError,
)
from vivavoce.plugins.google.wire import PROVIDER

FINAL_CLOSE_CODES = frozenset({1002, 1003, 1007, 1008, 1009, 1010})
"""The server closed because of our message or our rights: the same again would end the same way."""

ABORTED = ("aborted", "deadline", "unavailable", "timed out")
"""Words in the reason of a close that show a cause at the server, with any code."""

EXHAUSTED = ("quota", "exhausted", "rate limit")


def provider_error(error: Exception) -> ProviderError:
    """Return the error of our tree for an exception of the SDK."""
    if isinstance(error, ProviderError):
        return error
    if isinstance(error, errors.APIError):
        return _api_error(error)
    if isinstance(error, exceptions.InvalidStatus):
        return _status_error(error.response.status_code)
    if isinstance(error, exceptions.ConnectionClosed):
        code = error.rcvd.code if error.rcvd is not None else 1006
        return _closed(code, error.rcvd.reason if error.rcvd is not None else "")
    if isinstance(error, OSError):
        reason = f"{type(error).__name__}: {error.strerror}" if error.strerror else type(error).__name__
        return ProviderConnectionError(f"no connection: {reason}", provider=PROVIDER)
    if isinstance(error, exceptions.WebSocketException):
        reason = f"no websocket: {type(error).__name__}"
        return ProviderProtocolError(reason, provider=PROVIDER, retryable=True)
    if isinstance(error, ValueError):  # the SDK could not read a message; its text quotes the message
        return ProviderProtocolError("needed a message in JSON, got something else", provider=PROVIDER, retryable=True)
    return ProviderError(f"the SDK failed: {type(error).__name__}", provider=PROVIDER)


def _api_error(error: errors.APIError) -> ProviderError:
    code = error.code if isinstance(error.code, int) else 0
    if 400 <= code < 600:
        return _status_error(code)
    return _closed(code, error.details if isinstance(error.details, str) else "")


def _closed(code: int, reason: str) -> ProviderError:
    said = reason.casefold()
    if any(word in said for word in EXHAUSTED):
        return _status_error(429)
    if code in FINAL_CLOSE_CODES and not any(word in said for word in ABORTED):
        return ProviderStatusError(
            f"the server closed the connection with code {code}: check key, model and settings",
            provider=PROVIDER,
            status=code,
        )
    return ProviderConnectionError(f"the connection was lost: closed with code {code}", provider=PROVIDER)


def _status_error(status: int) -> ProviderStatusError:
    remedies = {401: "; check the API key", 403: "; check what the API key may do", 404: "; check the model"}
    retryable = status in (408, 429) or status >= 500
    text = f"status {status}{remedies.get(status, '')}"
    return ProviderStatusError(text, provider=PROVIDER, status=status, retryable=retryable)
