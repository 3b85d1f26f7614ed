"""Maps the SDK's errors to the error tree, without secrets and without words of the conversation."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping

from vivavoce.pipelines.core.errors import (
    ProviderConnectionError,
    ProviderError,
    ProviderProtocolError,
    ProviderTimeoutError,
)
from vivavoce.pipelines.net.failures import Failures, error_in
from vivavoce.pipelines.net.keys import shown_url
from vivavoce.pipelines.net.redaction import Redaction
from vivavoce.plugins.openai.endpoint import Endpoint
from vivavoce.plugins.openai.wire import PROVIDER

STATUSES: Mapping[int | str, int] = {
    "queue_exceeded": 429,
    "token_quota_exceeded": 429,
    "too_many_requests_error": 429,
    "request_quota_exceeded": 429,
    "DeploymentNotFound": 404,
}
"""Cerebras' names for too many requests (https://inference-docs.cerebras.ai/support/error), and Azure's own."""


def openai_failures(
    secrets: Iterable[str],
    said: Callable[[], Iterable[str]],
    *,
    endpoint: Endpoint,
    model: str,
    asked: str = "",
) -> Failures:
    """Return the errors of a component.

    Args:
        secrets: Masked wherever they occur.
        said: Returns the texts that must not be quoted.
        asked: What was asked for, if the server refuses it (400).
    """
    server = endpoint.server
    what = "deployment" if server.name == "azure" else "model"
    variables = " or ".join(server.key_variables)
    remedies = {
        404: f"check model and base_url: {what} {model!r} ({server.models}) at {shown_url(endpoint.url)!r}",
        413: "the request is too long for the server: send less of the conversation or of the audio",
    }
    if asked:
        remedies[400] = asked
    if variables:
        remedies[401] = f"check the API key: it must be one of {server.name} ({variables})"
    start = f"is it running? start it: {server.start}" if server.start else ""
    redact = Redaction(secrets, said)
    return Failures(provider=PROVIDER, redact=redact, statuses=STATUSES, remedies=remedies, unreachable=start)


def sdk_errors() -> tuple[type[Exception], ...]:
    """Return the kinds of exceptions for which `provider_error()` has an error of our tree."""
    import httpx2
    import openai

    return (ProviderError, openai.OpenAIError, httpx2.HTTPError, UnicodeError, json.JSONDecodeError)


def provider_error(error: Exception, failures: Failures) -> ProviderError:
    """Return the error of our tree for an exception of the SDK, which holds the request with its headers.

    Raise it outside of the `except` block: then the exception is not its context either.
    """
    import httpx2
    import openai

    if isinstance(error, ProviderError):
        return error
    if isinstance(error, openai.APIStatusError):
        return failures.status(error.status_code, error.response.headers, error.body)
    if isinstance(error, openai.APITimeoutError | httpx2.TimeoutException):  # the second one while a body is read
        reason = type(error.__cause__ if isinstance(error, openai.APITimeoutError) else error).__name__
        return ProviderTimeoutError(f"the server took too long: {reason}", provider=PROVIDER)
    if isinstance(error, httpx2.HTTPError):
        return ProviderConnectionError(f"the answer broke off: {type(error).__name__}", provider=PROVIDER)
    if isinstance(error, openai.APIConnectionError):
        return failures.no_connection(error, is_refused=isinstance(error.__cause__, httpx2.ConnectError))
    if isinstance(error, openai.APIError):  # an error event instead of the next piece of the answer
        code = error.body.get("code") if isinstance(error.body, dict) else None
        return failures.in_answer(code or error.type, error_in(error.body)[1] or error.message)
    if isinstance(error, UnicodeEncodeError):
        text = "the request cannot be sent: needed Unicode text, got a lone surrogate, probably in a tool's output"
        return ProviderError(text, provider=PROVIDER)
    if isinstance(error, UnicodeError | json.JSONDecodeError):
        text = f"needed JSON in each event, got something else ({type(error).__name__})"
        return ProviderProtocolError(text, provider=PROVIDER)
    return ProviderError(f"the SDK failed: {type(error).__name__}", provider=PROVIDER)
