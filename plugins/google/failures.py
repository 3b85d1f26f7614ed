"""Maps the SDK's and the websocket's errors to the error tree; a server's text is left out, since it may quote."""

from __future__ import annotations

from google.genai import errors
from websockets import exceptions

from vivavoce.pipelines.core.errors import ProviderConnectionError, ProviderError, ProviderProtocolError
from vivavoce.pipelines.net.failures import Failures, system_reason
from vivavoce.plugins.google.wire import PROVIDER

FAILURES = Failures(provider=PROVIDER, redact=lambda _: "")


def provider_error(error: Exception) -> ProviderError:
    """Return the error of our tree for an exception of the SDK.

    Raise it outside of the `except` block: then the exception, which may hold the key, is not its context either.
    """
    if isinstance(error, ProviderError):
        return error
    if isinstance(error, errors.APIError):
        code = error.code if isinstance(error.code, int) else 0
        reason = error.details if isinstance(error.details, str) else ""
        return FAILURES.status(code) if 400 <= code < 600 else FAILURES.closed(code, reason)
    if isinstance(error, exceptions.InvalidStatus):
        status = error.response.status_code
        if status < 300:
            return FAILURES.malformed("a websocket", f"status {status}; check base_url")
        return FAILURES.status(status, error.response.headers)
    if isinstance(error, exceptions.ConnectionClosed):
        return FAILURES.closed(error.rcvd.code, error.rcvd.reason) if error.rcvd is not None else FAILURES.closed(1006)
    if isinstance(error, exceptions.InvalidMessage):  # cut before the answer to the handshake
        return FAILURES.closed(1006)
    if isinstance(error, OSError):
        return ProviderConnectionError(f"no connection: {system_reason(error)}", provider=PROVIDER)
    if isinstance(error, exceptions.WebSocketException):
        reason = f"no websocket: {type(error).__name__}"
        return ProviderProtocolError(reason, provider=PROVIDER, retryable=True)
    if isinstance(error, ValueError):  # the SDK could not read a message; its text quotes the message
        return FAILURES.malformed("a message in JSON", "something else", retryable=True)
    return ProviderError(f"the SDK failed: {type(error).__name__}", provider=PROVIDER)


def message_error(error: Exception) -> ProviderError:
    """Return the error for an exception of the SDK that came instead of a message.

    The SDK raises a TypeError for a message of a kind that it does not know: then only the message is lost.
    """
    failure = provider_error(error)
    if type(failure) is ProviderError:
        got = f"another one ({type(error).__name__})"
        return FAILURES.malformed("a message that the SDK knows", got, retryable=True)
    return failure
