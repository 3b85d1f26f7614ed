"""OpenAIComponent: the model, the client and the close of each component of this plugin."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

from vivavoce.pipelines.core.component import Component
from vivavoce.pipelines.net.client import Client
from vivavoce.pipelines.net.failures import Failures
from vivavoce.plugins.openai.client import SDKClient
from vivavoce.plugins.openai.endpoint import Endpoint
from vivavoce.plugins.openai.failures import openai_failures
from vivavoce.plugins.openai.wire import PROVIDER

C = TypeVar("C", Client, SDKClient)


class OpenAIComponent(Component, Generic[C]):
    """Holds a model's name and the client of its server.

    Args:
        model: The checked name of the model.
    """

    provider = PROVIDER

    def __init__(self, model: str, endpoint: Endpoint, client: C) -> None:
        self._model = model
        self._endpoint = endpoint
        self._client: C = client

    @property
    def model(self) -> str:
        return self._model

    async def aclose(self) -> None:
        """Close the connections. Requests that still run fail; open websockets go on.

        Raises:
            ConfigurationError: The connections belong to another event loop, which still runs.
        """
        await self._client.aclose()

    def _failures(self, said: Callable[[], Iterable[str]], signature: dict[str, str], *, asked: str = "") -> Failures:
        """Return the errors of one request.

        Args:
            said: Returns the texts that must not be quoted.
            signature: The headers of the request that hold a token.
            asked: What was asked for, if the server refuses it (400).
        """
        tokens = (part for value in signature.values() for part in (value, *value.split()[1:]))
        secrets = (*self._client.secrets, *tokens)
        return openai_failures(secrets, said, endpoint=self._endpoint, model=self._model, asked=asked)
