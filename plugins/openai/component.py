"""OpenAIComponent: the model, the client and the close of each component of this plugin."""

from __future__ import annotations

from typing import Generic, TypeVar

from vivavoce.pipelines.core.component import Component
from vivavoce.pipelines.net.client import Client
from vivavoce.plugins.openai.client import SDKClient
from vivavoce.plugins.openai.wire import PROVIDER

C = TypeVar("C", Client, SDKClient)


class OpenAIComponent(Component, Generic[C]):
    """Holds a model's name and the client of its server.

    Args:
        model: The checked name of the model.
    """

    provider = PROVIDER

    def __init__(self, model: str, client: C) -> None:
        self._model = model
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
