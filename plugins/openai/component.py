"""OpenAIComponent: the endpoint and the errors of each component of this plugin."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from vivavoce.pipelines.net.client import Client
from vivavoce.pipelines.net.component import NetComponent
from vivavoce.pipelines.net.failures import Failures
from vivavoce.plugins.openai.client import SDKClient
from vivavoce.plugins.openai.endpoint import Endpoint
from vivavoce.plugins.openai.failures import openai_failures
from vivavoce.plugins.openai.wire import PROVIDER

C = TypeVar("C", bound=Client | SDKClient)


class OpenAIComponent(NetComponent[C]):
    """Holds a model's name, and the endpoint of its server with the client."""

    provider = PROVIDER

    def __init__(self, model: str, endpoint: Endpoint, client: C) -> None:
        super().__init__(model, client)
        self._endpoint = endpoint

    def _failures(self, said: Callable[[], Iterable[str]], signature: dict[str, str], *, asked: str = "") -> Failures:
        """Return the errors of one request.

        Args:
            said: Returns the texts that must not be quoted.
            signature: The headers of the request that hold a token.
            asked: What was asked for, if the server refuses it (400).
        """
        secrets = [*self._client.secrets]
        for value in signature.values():
            secrets += [value, *value.split()[1:]]
        return openai_failures(secrets, said, endpoint=self._endpoint, model=self._model, asked=asked)
