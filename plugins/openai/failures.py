"""Maps the SDK's errors to the error tree, without secrets and without words of the conversation."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from vivavoce.pipelines.core.errors import (
    ProviderConnectionError,
    ProviderError,
    ProviderProtocolError,
    ProviderStatusError,
    ProviderTimeoutError,
)
from vivavoce.pipelines.llm.base import GenerateRequest
from vivavoce.pipelines.llm.chat_context import ChatMessage, FunctionCall, FunctionCallOutput
from vivavoce.plugins.openai.wire import PROVIDER, error_in_answer, is_retryable

if TYPE_CHECKING:
    import openai

MESSAGE_LIMIT = 300
"""Length of a server's text that is passed on."""

QUOTE_WORDS = 4
"""Words in a row that count as a quotation."""

QUOTE_CHARACTERS = 4
"""A shorter text may occur in any message."""

KEY = re.compile(r"\b(?:sk|gsk|pk|key)-[\w*-]{4,}")
"""Texts that look like a key, also half masked."""

REMEDIES = {
    401: "check the API key",
    403: "check what the API key may do",
    404: "check model and base_url",
}


class Redaction:
    """Makes a server's text safe to show: without secrets and words of the conversation.

    Args:
        secrets: Masked wherever they occur.
        request: Its words must not be quoted.
    """

    def __init__(self, secrets: Iterable[str], request: GenerateRequest) -> None:
        self._secrets = tuple(secret for secret in secrets if secret)
        self._request = request

    def __call__(self, message: object) -> str:
        """Return `message`, or a substitute for it."""
        if not isinstance(message, str) or not message.strip():
            return ""
        if "base64," in message or self._is_quotation(message):
            return "(the server's message is withheld, since it quotes the conversation)"
        for secret in self._secrets:
            message = message.replace(secret, "***")
        message = KEY.sub("***", " ".join(message.split()))
        return message if len(message) <= MESSAGE_LIMIT else f"{message[:MESSAGE_LIMIT]}…"

    def _is_quotation(self, message: str) -> bool:
        said = " ".join(message.casefold().split())
        for text in self._content():
            words = text.casefold().split()
            size = min(QUOTE_WORDS, len(words))
            runs = (" ".join(words[at : at + size]) for at in range(len(words) - size + 1))
            if any(len(run) >= QUOTE_CHARACTERS and run in said for run in runs):
                return True
        return False

    def _content(self) -> Iterator[str]:
        yield self._request.instructions
        yield self._request.extra_instructions
        for item in self._request.context:
            if isinstance(item, ChatMessage):
                yield item.content
            elif isinstance(item, FunctionCall):
                yield item.arguments
                yield item.extra
            elif isinstance(item, FunctionCallOutput):
                yield item.output


@contextmanager
def provider_errors(redact: Redaction) -> Iterator[None]:
    """Raise errors of our tree for exceptions of the SDK.

    The chain ends here (`from None`): the SDK's errors hold the request with its headers, and the server's text.
    """
    import openai

    try:
        yield
    except openai.APIStatusError as error:
        raise _status_error(error, redact) from None
    except openai.APITimeoutError as error:
        reason = type(error.__cause__).__name__
        raise ProviderTimeoutError(f"the server took too long: {reason}", provider=PROVIDER) from None
    except openai.APIConnectionError as error:
        raise ProviderConnectionError(f"no connection, or it was lost: {_reason(error)}", provider=PROVIDER) from None
    except openai.APIError as error:  # an error event instead of the next piece of the answer
        code = error.body.get("code") if isinstance(error.body, dict) else None
        raise error_in_answer(code or error.type, redact(_message(error.body) or error.message)) from None
    except openai.OpenAIError as error:
        raise ProviderError(f"the SDK failed: {type(error).__name__}", provider=PROVIDER) from None
    except UnicodeEncodeError:
        raise ProviderError(
            "the request cannot be sent: needed Unicode text, got a lone surrogate, probably in a tool's output",
            provider=PROVIDER,
        ) from None
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ProviderProtocolError(
            f"needed JSON in each event, got something else ({type(error).__name__})", provider=PROVIDER
        ) from None


def _status_error(error: openai.APIStatusError, redact: Redaction) -> ProviderStatusError:
    status, headers = error.status_code, error.response.headers
    code = error.code or (error.type if isinstance(error.type, str) else None)
    facts = [f"status {status}", code if code and not code.isdecimal() else None]
    if error.request_id:
        facts.append(f"request {error.request_id}")
    if wait := headers.get("retry-after"):
        facts.append(f"asks to wait {wait} s")
    parts = [", ".join(redact(fact) for fact in facts if fact), redact(_message(error.body)), REMEDIES.get(status, "")]
    retryable = is_retryable(status, error.code)
    if (verdict := headers.get("x-should-retry")) in ("true", "false"):  # the server knows better
        retryable = verdict == "true"
    return ProviderStatusError(
        "; ".join(part for part in parts if part), provider=PROVIDER, status=status, retryable=retryable
    )


def _message(body: object) -> str:
    """Return a server's text on an error: OpenAI's `message`, FastAPI's `detail`, or short plain text."""
    if isinstance(body, dict):
        body = body.get("message") or body.get("detail")
    if not isinstance(body, str) or "<" in body[:100]:  # a proxy's page
        return ""
    return body


def _reason(error: BaseException) -> str:
    """Return the system's error text, else the name of the HTTP client's error: its text may hold headers."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError) and cause.strerror:
            return f"{type(cause).__name__}: {cause.strerror}"
        cause = cause.__cause__ or cause.__context__
    return type(error.__cause__ or error).__name__
