"""LLM: the language model's port on the Messages API; the module that does the I/O."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from vivavoce.pipelines.core.errors import ConfigurationError
from vivavoce.pipelines.core.trace_context import trace_headers
from vivavoce.pipelines.llm.base import LLM as LLMPort
from vivavoce.pipelines.llm.base import GenerateRequest, LLMCapabilities, LLMEvent
from vivavoce.pipelines.llm.streamed import streamed_answer
from vivavoce.pipelines.net.client import Client
from vivavoce.pipelines.net.failures import Failures
from vivavoce.pipelines.net.keys import checked_url, find_key, is_server_of
from vivavoce.pipelines.net.redaction import Redaction
from vivavoce.plugins.anthropic.messages import RequestDefaults, request_body
from vivavoce.plugins.anthropic.options import LLMOptions
from vivavoce.plugins.anthropic.wire import PROVIDER, Reader

DEFAULT_MODEL = "claude-haiku-5-5"
DEFAULT_BASE_URL = "https://api.anthropic.com"
KEY_VARIABLES = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN")
URL_VARIABLE = "ANTHROPIC_BASE_URL"
API_VERSION = "2023-06-01"
"""The one that all servers and models know. Source: https://platform.claude.com/docs/en/api/versioning."""

MODELS_PAGE = "https://platform.claude.com/docs/en/about-claude/models"


class LLM(LLMPort):
    """A model of Anthropic, or of a server with its Messages API.

    One may be shared by the sessions of one event loop; its connections open with the first request.

    Args:
        model: `DEFAULT_MODEL` unless given; a server at `base_url` needs one.
        api_key: Else the environment's `ANTHROPIC_API_KEY`, if there is no `base_url`.
        auth_token: A bearer token instead of a key, for a gateway; else the environment's `ANTHROPIC_AUTH_TOKEN`.
        base_url: Of another server, without `/v1/messages`; else the environment's `ANTHROPIC_BASE_URL`.
    Raises:
        ConfigurationError: The key or the model is missing, or an argument is invalid.
    """

    provider = PROVIDER

    def __init__(
        self,
        *,
        model: str | None = None,
        api_key: str | None = None,
        auth_token: str | None = None,
        base_url: str | None = None,
        options: LLMOptions | None = None,
    ) -> None:
        if not model and base_url is not None:
            raise ConfigurationError(f"a server of your own needs model, got {model!r}; GET /v1/models may list them")
        options = options or LLMOptions()
        self._client = client_of(api_key=api_key, auth_token=auth_token, base_url=base_url, options=options)
        self._model = model or DEFAULT_MODEL
        is_own = is_server_of(self._client.base_url, "anthropic.com")
        self._defaults = RequestDefaults(
            model=self._model,
            maker=f"{PROVIDER} {self._client.shown_url} {self._model}",
            options=options,
            thinking=_thinking(options, self._model),
            is_own_server=is_own,
        )

    def __repr__(self) -> str:
        return f"anthropic.LLM(model={self.model!r}, base_url={self._client.shown_url!r})"

    @property
    def model(self) -> str:
        return self._model

    @property
    def capabilities(self) -> LLMCapabilities:
        return LLMCapabilities(supports_tools=True, supports_images=True)

    async def generate(self, request: GenerateRequest) -> AsyncGenerator[LLMEvent, None]:
        """Run one step; see the port. Closing it closes the HTTP response; a refusal ends the answer as `refusal`.

        Raises:
            ProviderError: As `Failures` maps it.
            ConfigurationError: It is closed, or belongs to another event loop.
        """
        failures = self._failures(request)
        reader = Reader(request, self._defaults.maker, failures)
        body, headers = request_body(request, self._defaults)
        betas = (headers, self._client.options.extra_headers)
        beta = ",".join(text for one in betas if (text := one.get("anthropic-beta")))
        headers = {**trace_headers(), **({"anthropic-beta": beta} if beta else {})}
        async with self._client.request("v1/messages", failures, json=body, headers=headers) as response:
            async with aclosing(streamed_answer(response, reader)) as events:
                async for event in events:
                    yield event

    async def aclose(self) -> None:
        """Close the connections. Requests that still run fail.

        Raises:
            ConfigurationError: The connections belong to another event loop, which still runs.
        """
        await self._client.aclose()

    def _failures(self, request: GenerateRequest) -> Failures:
        return Failures(
            provider=PROVIDER,
            redact=Redaction(self._client.secrets, request.texts),
            remedies={
                401: "check the API key: one of the Claude console begins with sk-ant-api; a token goes to auth_token",
                404: f"check model ({self._model!r}; {MODELS_PAGE} lists them) and base_url",
            },
        )


def client_of(
    *,
    api_key: str | None = None,
    auth_token: str | None = None,
    base_url: str | None = None,
    options: LLMOptions | None = None,
) -> Client:
    """Return the client of the server that the arguments name, else of the environment's, else of Anthropic's.

    Raises:
        ConfigurationError: The key is missing, or an argument is invalid.
    """
    server = checked_url(base_url or os.environ.get(URL_VARIABLE) or DEFAULT_BASE_URL, DEFAULT_BASE_URL)
    headers = {"anthropic-version": API_VERSION, **_credentials(api_key, auth_token, has_url=base_url is not None)}
    server = server.rstrip("/").removesuffix("/v1/messages").removesuffix("/v1")
    return Client("anthropic.LLM", server, headers=headers, options=options)


def _credentials(api_key: str | None, auth_token: str | None, *, has_url: bool) -> dict[str, str]:
    """Return the header with the key. The environment's key goes to the environment's server, and nowhere else."""
    if api_key and auth_token:
        raise ConfigurationError("needed api_key or auth_token, got both; give the one that the server takes")
    key_variable, token_variable = KEY_VARIABLES
    if not (api_key or auth_token or has_url or os.environ.get(key_variable, "").strip()):
        auth_token = os.environ.get(token_variable)
    if auth_token:
        return {"Authorization": f"Bearer {find_key(auth_token, ())}"}
    remedy = f" (or {token_variable}, auth_token), or base_url for a server of your own, which may need none"
    key = find_key(api_key, () if has_url else (key_variable,), remedy=remedy)
    return {"x-api-key": key} if key else {}


def _thinking(options: LLMOptions, model: str) -> dict[str, Any] | None:
    thinking = options.thinking
    if isinstance(thinking, int):
        return {"type": "enabled", "budget_tokens": thinking}
    if thinking is None and model == DEFAULT_MODEL:
        thinking = "disabled"
    return {"type": thinking} if thinking is not None else None
