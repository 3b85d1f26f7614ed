"""Statuses, close codes and errors inside of an answer become errors that say what is known, and nothing secret."""

from __future__ import annotations

import ssl
from typing import Any

import aiohttp
import pytest

from vivavoce.pipelines.core.errors import (
    ProviderConnectionError,
    ProviderError,
    ProviderProtocolError,
    ProviderStatusError,
    ProviderTimeoutError,
)
from vivavoce.pipelines.net.failures import Failures, error_in
from vivavoce.pipelines.net.redaction import Redaction

FAILURES = Failures(
    provider="deepgram",
    redact=Redaction(["secret"]),
    statuses={4001: 401, 3009: 429, "NET-0001": 408, "slow_down": 429},
    final=frozenset({"unaccepted_terms"}),
    remedies={403: "choose a model of your plan"},
)


@pytest.mark.parametrize(
    ("body", "name", "text"),
    [
        (b'{"error": {"code": "bad", "message": "No."}}', "bad", "No."),  # OpenAI
        (b'{"type": "error", "error": {"type": "bad", "message": "No."}}', "bad", "No."),  # Anthropic
        (b'[{"error": {"code": 400, "message": "No.", "status": "INVALID"}}]', "400", "No."),  # Google
        (b'{"err_code": "BAD", "err_msg": "No.", "request_id": "r"}', "BAD", "No."),  # Deepgram
        (b'{"detail": {"status": "bad", "message": "No."}}', "bad", "No."),  # ElevenLabs
        (b'{"title": "T", "message": "No.", "error_code": "bad", "status_code": 400}', "bad", "No."),  # Cartesia
        (b'{"detail": "No."}', "", "No."),  # FastAPI
        (b'{"error": "No."}', "", "No."),  # Ollama
        (b'{"error": {"code": null, "type": "bad", "message": null}}', "bad", ""),
        (b"No.", "", "No."),
        (b"<html>No.</html>", "", ""),
        (b"\xff\xfe", "", "\ufffd\ufffd"),
        (b"[" * 100_000, "", "[" * 100_000),
        (b"[]", "", ""),
        (b"17", "", ""),
        (b'{"detail": [{"loc": ["body"]}]}', "", ""),
        (None, "", ""),
    ],
)
def test_an_error_is_read_in_each_spelling_in_use(body: object, name: str, text: str) -> None:
    assert error_in(body) == (name, text)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": " 0.5 "}, 0.5),
        ({"retry-after-ms": "250", "retry-after": "1"}, 0.25),
        ({"retry-after": "Wed, 21 Oct 2026 07:28:30 GMT", "date": "Wed, 21 Oct 2026 07:28:00 GMT"}, 30.0),
        ({"retry-after": "Wed, 21 Oct 2026 07:28:30 GMT", "date": "Wed, 21 Oct 2026 07:29:00 GMT"}, 0.0),
        ({"retry-after": "Wed, 21 Oct 2026 07:28:30 GMT"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-1"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({}, None),
    ],
)
def test_the_wait_that_a_server_asks_for_is_kept(headers: dict[str, str], seconds: float | None) -> None:
    assert FAILURES.status(429, headers).retry_after == seconds


def test_a_refusal_may_give_its_reason_in_a_header_and_the_remedy_is_the_providers() -> None:
    error = FAILURES.status(403, {"dg-error": "the model nova-9 of secret"})
    assert str(error) == "deepgram: status 403; the model nova-9 of ***; choose a model of your plan"
    assert str(FAILURES.status(403, {"dg-error": "No."})) == "deepgram: status 403; No; choose a model of your plan"
    assert str(FAILURES.status(400, {"dg-error": "No."})) == "deepgram: status 400; No."


@pytest.mark.parametrize(
    ("name", "status", "retryable"),
    [
        ("slow_down", 429, True),
        ("server_error", 500, True),
        ("overloaded_error", 529, True),
        ("authentication_error", 401, False),
        ("unaccepted_terms", 429, False),
        ("insufficient_quota", 429, False),
        ("never_heard_of", 400, False),
        (503, 503, True),
        ("503", 503, True),
        (3009, 429, True),
    ],
)
def test_a_named_error_inside_of_an_answer_is_a_status(name: object, status: int, retryable: bool) -> None:
    error = FAILURES.in_answer(name, "of secret")
    assert isinstance(error, ProviderStatusError)
    assert (error.status, error.retryable) == (status, retryable)
    assert "of ***" in str(error)


@pytest.mark.parametrize("name", [None, "", 0, 17, [], {}])
def test_an_error_without_a_name_may_be_tried_again(name: Any) -> None:
    error = FAILURES.in_answer(name, "out of memory")
    assert type(error) is ProviderError
    assert error.retryable
    assert "out of memory" in str(error)


@pytest.mark.parametrize(
    ("code", "reason", "kind", "retryable"),
    [
        (4001, "", ProviderStatusError, False),
        (3009, "", ProviderStatusError, True),
        (1011, "NET-0001", ProviderStatusError, True),
        (1008, "slow_down", ProviderStatusError, True),
        (1008, "DATA-0000", ProviderStatusError, False),
        (1006, "", ProviderConnectionError, True),
        (4999, "", ProviderConnectionError, True),
    ],
)
def test_a_close_means_what_the_provider_says(code: int, reason: str, kind: type, retryable: bool) -> None:
    error = FAILURES.closed(code, reason)
    assert type(error) is kind
    assert error.retryable is retryable
    assert reason in str(error)


REQUEST: Any = "a request whose headers hold the secret"


@pytest.mark.parametrize(
    ("error", "kind", "retryable"),
    [
        (TimeoutError(), ProviderTimeoutError, False),
        (ConnectionResetError(104, "Connection reset by peer"), ProviderConnectionError, True),
        (aiohttp.ServerDisconnectedError(), ProviderConnectionError, True),
        (aiohttp.ClientPayloadError("secret"), ProviderConnectionError, True),
        (aiohttp.InvalidURL("http://secret"), ProviderError, False),
        (aiohttp.WSServerHandshakeError(REQUEST, (), status=200), ProviderProtocolError, False),
        (aiohttp.ClientResponseError(REQUEST, (), status=400), ProviderProtocolError, True),
        (aiohttp.WebSocketError(1009, "secret"), ProviderProtocolError, True),
        (aiohttp.ClientConnectorSSLError(REQUEST, ssl.SSLError(1, "secret")), ProviderConnectionError, False),
        (ValueError("secret"), ProviderConnectionError, True),
    ],
    ids=lambda one: type(one).__name__ if isinstance(one, Exception) else None,
)
def test_a_lost_connection_is_told_by_the_systems_words_only(error: Exception, kind: type, retryable: bool) -> None:
    made = FAILURES.lost(error)
    assert type(made) is kind
    assert made.retryable is retryable
    assert made.provider == "deepgram"
    assert "secret" not in str(made)


def test_an_error_of_ours_stays_as_it_is() -> None:
    ours = ProviderError("so", provider="x")
    assert FAILURES.lost(ours) is ours
