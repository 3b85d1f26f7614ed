"""The voices that take text as it comes, for the fault suite."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

import anyio

from kit.net_users import Line, SocketUser
from kit.servers.faulty_server import LIMIT, Message
from vivavoce.pipelines.core.errors import ProviderError
from vivavoce.pipelines.realtime_model.feed import Feed
from vivavoce.pipelines.tts.base import TTS


class SpeakingUser(SocketUser):
    """A voice that takes text as it comes over a websocket, in the middle of a text."""

    good: Message = ""
    sends_audio = False

    def __init__(self) -> None:
        self._asked = anyio.Event()

    @abstractmethod
    def voice(self, url: str, key: str, limit: float) -> TTS:
        """Return the voice."""

    @abstractmethod
    def audio(self, message: Message) -> Message | None:
        """Return a message with audio for the text of this message of the voice; None: it has no text."""

    def answer(self, message: Message) -> Iterable[Message]:
        if (good := self.audio(message)) is not None:
            self.good = good
            self._asked.set()
        return ()

    @asynccontextmanager
    async def line(self, url: str, key: str, limit: float = LIMIT) -> AsyncIterator[Line]:
        texts: Feed[str] = Feed()
        events: Feed[object] = Feed()
        errors: list[ProviderError] = []
        self._asked = anyio.Event()

        async def speak() -> None:
            try:
                async for chunk in voice.stream(texts.items()):
                    events.put(chunk)
            except ProviderError as error:
                errors.append(error)
                self._asked.set()
            events.end(*errors)

        async def close() -> None:
            tasks.cancel_scope.cancel()

        async with self.voice(url, key, limit) as voice:
            async with anyio.create_task_group() as tasks:
                texts.put("Hello there. ")
                tasks.start_soon(speak)
                with anyio.fail_after(LIMIT):
                    await self._asked.wait()
                failed = list(errors)
                if not failed:
                    yield Line(lambda: texts.put("How are you? "), events.items(), close)
                tasks.cancel_scope.cancel()
        if failed:
            raise failed[0]
