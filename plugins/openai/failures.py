"""Maps the SDK's errors to the error tree, without secrets and without words of the conversation."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable

from vivavoce.pipelines.core.errors import (
    ProviderConnectionError,
    ProviderError,
    ProviderProtocolError,
    ProviderTimeoutError,
)
from vivavoce.pipelines.net.failures import Failures, error_in, system_reason
from vivavoce.pipelines.net.redaction import Redaction
from vivavoce.plugins.openai.wire import PROVIDER


def openai_failures(secrets: Iterable[str], said: Callable[[], Iterable[str]]) -> Failures:
    """Return the errors of a component.

    Args:
        secrets: Masked wherever they occur.
        said: Returns the texts that must not be quoted.
    """
    return Failures(provider=PROVIDER, redact=Redaction(secrets, said))


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
        text = f"no connection, or it was lost: {system_reason(error)}"
        return ProviderConnectionError(text, provider=PROVIDER)
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
