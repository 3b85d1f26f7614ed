"""Connection: one websocket, on which any number of contexts speak side by side."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from vivavoce.pipelines.net.client import Client
from vivavoce.pipelines.net.failures import Failures
from vivavoce.pipelines.net.redaction import Redaction
from vivavoce.pipelines.net.sockets import Message
from vivavoce.pipelines.tts.contexts import ContextConnection, SpeechContext
from vivavoce.plugins.cartesia import wire
from vivavoce.plugins.cartesia.wire import PROVIDER, Audio, Done, Failed, Words

PATH = "tts/websocket"

LIVES_FOR = 0.5
"""Seconds after its last audio in which a context gets more text. The server ends it after one second, and the text is
on its way for a part of that.
"""


class Context(SpeechContext):
    """One stretch of speech.

    Args:
        post: Sends a message.
        fields: The settings of its requests.
    """

    def __init__(
        self, post: Callable[[str], object], forget: Callable[[str], object], fields: Mapping[str, Any], limit: float
    ) -> None:
        super().__init__(PROVIDER, forget, limit)
        self._post = post
        self._fields = fields

    def _send_text(self, text: str) -> None:
        self._post(wire.speak(self._fields, self.id, text))

    def _send_end(self) -> None:
        self._post(wire.speak(self._fields, self.id, "", is_last=True))

    def _send_cancel(self) -> None:
        self._post(wire.cancel(self.id))

    def _lives_on(self, idle: float) -> bool:
        return idle < LIVES_FOR


class Connection(ContextConnection[Context]):
    """Sends the requests of its contexts.

    Args:
        refused: What to do about a request that is refused, by status.
    """

    def __init__(self, client: Client, refused: Mapping[int, str], wrong_key: str) -> None:
        redact = Redaction(client.secrets, self._said)
        remedies = {401: wrong_key}
        super().__init__(client, PATH, (), Failures(provider=PROVIDER, redact=redact, remedies=remedies))
        self._failures = Failures(provider=PROVIDER, redact=redact, remedies={**remedies, **refused})

    def begin(self, fields: Mapping[str, Any]) -> Context:
        """Return a new context.

        Args:
            fields: The settings of its requests.
        """
        return self._add(Context(self._post, self._contexts.pop, fields, self._client.options.read_timeout))

    def _take(self, message: Message) -> None:
        event = wire.event(message, self._failures)
        if isinstance(event, Failed) and not event.context:
            self._end(event.error)
            return
        context = self._contexts.get(event.context) if event is not None else None
        if context is None:
            return
        if isinstance(event, Audio | Words):
            context.take(event.data if isinstance(event, Audio) else event.words)
        elif isinstance(event, Done):
            if event.is_empty:
                context.pass_over()
            context.end(None)
        elif isinstance(event, Failed):
            context.end(event.error)
