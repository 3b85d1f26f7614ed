"""NetComponent: the model, the client and the close of a provider's component on the network."""

from __future__ import annotations

from typing import Generic, Protocol, TypeVar

from vivavoce.pipelines.core.component import Component


class Connections(Protocol):
    """What a component holds of its connections, such as a `Client`."""

    async def aclose(self) -> None:
        """Close those that are idle."""


C = TypeVar("C", bound=Connections)


class NetComponent(Component, Generic[C]):
    """Holds a model's name and the client of its server.

    Args:
        model: The checked name of the model.
    """

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
