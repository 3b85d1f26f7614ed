"""OpenAIComponent: the model, the client and the close of each component of this plugin."""

from __future__ import annotations

from vivavoce.pipelines.core.component import Component
from vivavoce.plugins.openai.client import Client, ConnectionOptions
from vivavoce.plugins.openai.wire import PROVIDER


class OpenAIComponent(Component):
    """Holds a model's name and the client of its server.

    Args:
        model: The checked name of the model.
        api_key, base_url, connection, modules: As for `Client`.
    Raises:
        ConfigurationError: As for `Client`.
    """

    provider = PROVIDER

    def __init__(
        self,
        name: str,
        model: str,
        *,
        api_key: str | None,
        base_url: str | None,
        connection: ConnectionOptions,
        modules: tuple[str, ...],
    ) -> None:
        self._model = model
        self._client = Client(f"openai.{name}", api_key=api_key, base_url=base_url, options=connection, modules=modules)

    @property
    def model(self) -> str:
        return self._model

    async def aclose(self) -> None:
        """Close the connections. Requests that still run fail; open websockets go on.

        Raises:
            ConfigurationError: The connections belong to another event loop, which still runs.
        """
        await self._client.aclose()
