"""LLMFailures: the errors of the Gemini API, whose bodies say more than their statuses.

Source: https://google.aip.dev/193 (the body: `code`, `message`, `status`, `details`); https://ai.google.dev/gemini-api/
docs/troubleshooting; `google/rpc/error_details.proto`: `ErrorInfo.reason`, `RetryInfo.retryDelay`,
`QuotaFailure.violations[].quotaId`; bodies in https://github.com/google-gemini/gemini-cli/issues/8437 and
https://github.com/RooCodeInc/Roo-Code/issues/3883.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from vivavoce.pipelines.core.errors import ProviderStatusError
from vivavoce.pipelines.net.failures import Failures, error_in

WRONG_KEY = frozenset({"API_KEY_INVALID", "API_KEY_EXPIRED", "API_KEY_SERVICE_BLOCKED"})
"""Reasons for which the API refuses a key, with status 400 or 403."""

PER_DAY = "PerDay"
"""A part of the ids of the quotas that are spent for today: trying again does not help, whatever `retryDelay` says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LLMFailures(Failures):
    """Makes the errors of one LLM.

    Args:
        key_remedy: What to do about a key that the server refuses.
    """

    key_remedy: str = ""

    def status(self, status: int, headers: Mapping[str, str] | None = None, body: object = None) -> ProviderStatusError:
        """Return the error of a refused request; the body's details go into it."""
        error = _error(body)
        if error is None:
            return Failures.status(self, status, headers, body)
        heads = {name.lower(): value for name, value in (headers or {}).items()}
        details = list(_details(error))
        for detail in details:
            if (seconds := _seconds(detail.get("retryDelay"))) is not None:
                heads.setdefault("retry-after", f"{seconds:g}")
            if any(PER_DAY in str(one.get("quotaId", "")) for one in _dicts(detail.get("violations"))):
                heads["x-should-retry"] = "false"
        reason = next((detail["reason"] for detail in details if isinstance(detail.get("reason"), str)), "")
        failures: Failures = self
        if self.key_remedy and (status == 401 or reason in WRONG_KEY):
            failures = replace(self, remedies={**self.remedies, status: self.key_remedy})
        name, text = error_in({**error, "code": error.get("status") or error.get("code")})
        return Failures.status(failures, status, heads, {"type": reason or name, "message": text})


def _error(body: object) -> dict[str, Any] | None:
    if isinstance(body, bytes | bytearray):
        try:
            body = json.loads(body)
        except (ValueError, RecursionError):
            return None
    if isinstance(body, list) and body:  # of a stream that is no event stream
        body = body[0]
    error = body.get("error") if isinstance(body, dict) else None
    return error if isinstance(error, dict) else None


def _details(error: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    yield from _dicts(error.get("details"))


def _dicts(value: object) -> Iterator[dict[str, Any]]:
    if isinstance(value, list):
        yield from (one for one in value if isinstance(one, dict))


def _seconds(duration: object) -> float | None:
    """Return a protobuf duration, such as `"26.5s"`, in seconds."""
    try:
        return float(str(duration).removesuffix("s")) if isinstance(duration, str) else None
    except ValueError:
        return None
