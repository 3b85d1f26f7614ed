"""Failures: the errors of one provider for statuses, close codes, errors inside of an answer and lost connections."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import Any

from vivavoce.pipelines.core.errors import (
    ProviderConnectionError,
    ProviderError,
    ProviderProtocolError,
    ProviderStatusError,
    ProviderTimeoutError,
)
from vivavoce.pipelines.net.redaction import Redaction

RETRYABLE_STATUSES = frozenset({408, 409, 425, 429})
"""And everything from 500 on."""

STATUSES: Mapping[str, int] = {
    "api_error": 500,
    "authentication_error": 401,
    "billing_error": 402,
    "internal_server_error": 500,
    "not_found_error": 404,
    "overloaded": 503,
    "overloaded_error": 529,
    "permission_error": 403,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "request_too_large": 413,
    "server_error": 500,
    "timeout_error": 504,
}
"""Names of errors inside of an answer -> the status that they mean; an unknown name is the request's fault: 400."""

FINAL = frozenset({"billing_hard_limit_reached", "insufficient_quota", "quota_exceeded"})
"""Names of errors for which no second try helps, with any status."""

FINAL_CLOSE_CODES = frozenset({1002, 1003, 1007, 1008, 1009, 1010})
"""The server closed because of our message or our rights: the same again would end the same way."""

PASSING = ("aborted", "deadline", "unavailable", "timed out", "timeout", "try again")
"""Words in the reason of a close that show a passing cause at the server, with any code."""

EXHAUSTED = ("quota", "exhausted", "rate limit", "too many")

REMEDIES: Mapping[int, str] = {
    401: "check the API key",
    402: "check the account's balance and plan",
    403: "check what the API key may do",
    404: "check model and base_url",
}

REQUEST_IDS = ("x-request-id", "request-id", "dg-request-id", "apim-request-id", "x-correlation-id")

REASON_HEADERS = ("dg-error",)
"""Headers in which a server says why it refuses a handshake."""

NAMES = ("code", "type", "error_code", "err_code", "status", "variant")
TEXTS = ("message", "err_msg", "error_message", "description", "detail", "reason", "title")
INSIDE = ("error", "detail")
"""Fields of an error in the spellings in use: its name, its text, and where both are if not at the top."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failures:
    """Makes the errors of one provider, all of them with its name.

    Args:
        redact: Makes a server's text safe to show.
        statuses: Close codes, and names of errors, that mean a status with this provider.
        final: Further names of errors for which no second try helps.
        remedies: What to do, by status, where it differs from `REMEDIES`.
        unreachable: What to do if nobody takes the connection, such as how to start the server.
    """

    provider: str
    redact: Callable[[object], str] = field(default_factory=Redaction)
    statuses: Mapping[int | str, int] = field(default_factory=dict)
    final: frozenset[str] = frozenset()
    remedies: Mapping[int, str] = field(default_factory=dict)
    unreachable: str = ""

    def status(self, status: int, headers: Mapping[str, str] | None = None, body: object = None) -> ProviderStatusError:
        """Return the error of a refused request or handshake.

        Args:
            headers: Of the answer; names in any case if it is a multidict.
            body: Of the answer: bytes, or what its JSON holds.
        """
        heads = headers or {}
        name, text = error_in(body)
        wait = _retry_after(heads)
        request = self.redact(next((heads[one] for one in REQUEST_IDS if heads.get(one)), ""))
        facts = (
            f"status {status}",
            "" if name.isdecimal() else self.redact(name),
            f"request {request}" if request else "",
            f"asks to wait {wait:g} s" if wait is not None else "",
        )
        text = self.redact(text or next((heads[one] for one in REASON_HEADERS if heads.get(one)), ""))
        if 300 <= status < 400:
            text = "a redirect, which is not followed, since it would carry the key to another host; check base_url"
        verdict = heads.get("x-should-retry")  # the server knows better
        retryable = verdict == "true" if verdict in ("true", "false") else self._is_retryable(status, name)
        shown = ", ".join(fact for fact in facts if fact)
        return self._status_error(status, shown, text, retryable=retryable, retry_after=wait)

    def in_answer(self, name: object, text: object = "") -> ProviderError:
        """Return the error that a server reports inside of an answer, or as a message of a websocket.

        Args:
            name: The error's name, a status as a number or as text, or None.
        """
        number = int(name) if isinstance(name, int) or (isinstance(name, str) and name.isdecimal()) else 0
        word = name if isinstance(name, str) and not number else ""
        if not (400 <= number < 600 or word or number in self.statuses):
            shown = self.redact(text)
            return ProviderError(_joined("the answer failed", shown), provider=self.provider, retryable=True)
        unknown = 429 if self._is_final(word) else 400
        status = self.statuses.get(word or number) or STATUSES.get(word) or number or unknown
        shown = f"the answer failed: {self.redact(word) or status}"
        return self._status_error(status, shown, self.redact(text), retryable=self._is_retryable(status, word))

    def closed(self, code: int, reason: str = "") -> ProviderError:
        """Return the error of a websocket that the server closed.

        Args:
            code: The close code; 1006 without one.
        """
        said = reason.casefold()
        status = self.statuses.get(code) or next(
            (self.statuses[name] for name in self.statuses if isinstance(name, str) and name.casefold() in said), 0
        )
        if not status and 4400 <= code < 4600:  # the usual way to write an HTTP status
            status = code - 4000
        if not status and any(word in said for word in EXHAUSTED):
            status = 429
        shown, text = f"the server closed the connection with code {code}", self.redact(reason)
        if status:
            return self._status_error(status, shown, text, retryable=self._is_retryable(status, ""))
        if code in FINAL_CLOSE_CODES and not any(word in said for word in PASSING):
            remedy = "; ".join(part for part in (text, "check key, model and settings") if part)
            return ProviderStatusError(f"{shown}: {remedy}", provider=self.provider, status=code)
        if code == 1006:
            shown = "the connection was lost: it ended without a close"
        return ProviderConnectionError(_joined(shown, text), provider=self.provider)

    def lost(self, error: BaseException) -> ProviderError:
        """Return the error of a connection that failed or ended with an exception of the system or of aiohttp.

        Nothing of the exception's text is taken over but the system's reason.
        """
        import aiohttp

        if isinstance(error, ProviderError):
            return error
        if isinstance(error, aiohttp.WSServerHandshakeError):
            text = f"no websocket: the server answered with status {error.status}; check base_url"
            return ProviderProtocolError(text, provider=self.provider)
        if isinstance(error, aiohttp.ClientSSLError):
            text = f"no connection: {type(error).__name__}; check base_url and the server's certificate"
            return ProviderConnectionError(text, provider=self.provider, retryable=False)
        if isinstance(error, aiohttp.InvalidURL):
            return ProviderError("no connection: the URL is invalid; check base_url", provider=self.provider)
        if isinstance(error, aiohttp.ClientResponseError | aiohttp.WebSocketError):
            text = f"the server breaks the protocol: {type(error).__name__}"
            return ProviderProtocolError(text, provider=self.provider, retryable=True)
        if isinstance(error, TimeoutError):
            return ProviderTimeoutError(f"the server took too long: {type(error).__name__}", provider=self.provider)
        if isinstance(error, aiohttp.ClientConnectorError):
            return self.no_connection(error.os_error, is_refused=True)
        return self.no_connection(error)

    def no_connection(self, error: BaseException, *, is_refused: bool = False) -> ProviderConnectionError:
        """Return the error of a connection that the system could not make or keep.

        Args:
            is_refused: Whether it was never there.
        """
        text = f"no connection, or it was lost: {system_reason(error)}"
        hint = f"; {self.unreachable}" if is_refused and self.unreachable else ""
        return ProviderConnectionError(text + hint, provider=self.provider)

    def malformed(self, needed: str, got: object, *, retryable: bool = False) -> ProviderProtocolError:
        """Return the error of data that breaks the provider's protocol; `got` must hold no content."""
        text = f"needed {needed}, got {got}; is the server compatible?"
        return ProviderProtocolError(text, provider=self.provider, retryable=retryable)

    def _status_error(
        self, status: int, shown: str, text: str, *, retryable: bool, retry_after: float | None = None
    ) -> ProviderStatusError:
        remedy = self.remedies.get(status, REMEDIES.get(status, ""))
        parts = (shown, text.removesuffix(".") if remedy else text, remedy)
        return ProviderStatusError(
            "; ".join(part for part in parts if part),
            provider=self.provider,
            status=status,
            retryable=retryable,
            retry_after=retry_after,
        )

    def _is_retryable(self, status: int, name: str) -> bool:
        return not self._is_final(name) and (status in RETRYABLE_STATUSES or status >= 500)

    def _is_final(self, name: str) -> bool:
        return name in FINAL or name in self.final


def error_in(body: object) -> tuple[str, str]:
    """Return the name and the text of an error in a server's answer; "" for one that it does not have.

    Args:
        body: Bytes, the value of its JSON, or anything else.
    """
    if isinstance(body, bytes | bytearray):
        raw = bytes(body)
        try:
            body = json.loads(raw)
        except (ValueError, RecursionError):
            body = raw.decode("utf-8", "replace")
    if isinstance(body, list) and body:
        body = body[0]
    if isinstance(body, dict):
        inner = next((body[name] for name in INSIDE if isinstance(body.get(name), dict)), None)
        text = next((body[name] for name in (*TEXTS, "error") if isinstance(body.get(name), str)), "")
        if inner is not None:
            name, inner_text = error_in(inner)
            return name, inner_text or text
        return next((str(body[name]) for name in NAMES if _is_name(body.get(name))), ""), text
    if not isinstance(body, str) or "<" in body[:100]:  # a proxy's page
        return "", ""
    return "", body


def system_reason(error: BaseException) -> str:
    """Return the system's text of an error, else the name of its class: another text may hold headers."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError) and cause.strerror:
            return f"{type(cause).__name__}: {cause.strerror}"
        cause = cause.__cause__ or cause.__context__
    return type(error.__cause__ or error).__name__


def _is_name(value: Any) -> bool:
    return (isinstance(value, str) and bool(value)) or (isinstance(value, int) and not isinstance(value, bool))


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds that the server asks to wait, given as a number or as a date beside its own date."""
    for name, unit in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        text = headers.get(name, "").strip()
        try:
            seconds = float(text) / unit
        except ValueError:
            seconds = _seconds_between(headers.get("date", ""), text)
        if 0 <= seconds < 1e6:  # neither a "nan" nor an "inf"
            return seconds
    return None


def _seconds_between(now: str, later: str) -> float:
    try:
        return max(0.0, (parsedate_to_datetime(later) - parsedate_to_datetime(now)).total_seconds())
    except (TypeError, ValueError):
        return -1.0


def _joined(start: str, text: str) -> str:
    return f"{start}: {text}" if text else start
