"""UploadStream: each utterance is one upload to `audio/transcriptions`, and its transcript comes in order."""

from __future__ import annotations

import asyncio
import logging
from array import array
from collections import deque
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass, field

from vivavoce.pipelines.core.boundary import as_provider_error
from vivavoce.pipelines.core.errors import ProviderError, ProviderStatusError
from vivavoce.pipelines.core.owned_tasks import OwnedTasks
from vivavoce.pipelines.media.frame import BYTES_PER_SAMPLE, AudioFrame
from vivavoce.pipelines.net.client import Client
from vivavoce.pipelines.net.failures import Failures
from vivavoce.pipelines.net.streams import json_object
from vivavoce.pipelines.stt.base import STTFinal
from vivavoce.plugins.openai.endpoint import Endpoint
from vivavoce.plugins.openai.transcripts import Heard, Transcription, heard_of, wav_of
from vivavoce.plugins.openai.utterances import UtteranceStream
from vivavoce.plugins.openai.wire import PROVIDER

logger = logging.getLogger(__name__)

RATE = 16000
"""Hz of an upload: all models hear at this rate."""

QUIET = 100
"""The greatest sample of audio without speech, about -50 dB: no request is made for it, since models hear words in
silence."""

MIN_SECONDS = 0.2
"""Shorter audio is filled up: OpenAI refuses less than 0.1 s."""

CLOSE_LIMIT = 1.0
TOO_LARGE = 413

Fail = Callable[[dict[str, str]], Failures]
"""Returns the errors of a request with these headers."""


@dataclass(slots=True)
class Utterance:
    """Speech between an onset and a flush.

    Args:
        begin: Seconds of the stream's audio.
    """

    begin: float
    pcm: bytearray = field(default_factory=bytearray, repr=False)
    has_sound: bool = False
    final: STTFinal | None = None


class UploadStream(UtteranceStream):
    """One session's recognition; see `UtteranceStream`.

    A request that fails ends the stream: the pipeline opens another one and pushes the audio again. An utterance that
    is too large for the server is lost alone.

    Args:
        max_bytes: Of one upload; longer speech is sent in parts.
        order_limit: Seconds that a transcript waits for the one before it.
    """

    def __init__(
        self,
        client: Client,
        endpoint: Endpoint,
        asked: Transcription,
        fail: Fail,
        *,
        max_bytes: int,
        order_limit: float,
    ) -> None:
        super().__init__(RATE)
        self._client = client
        self._endpoint = endpoint
        self._asked = asked
        self._fail = fail
        self._most = max(RATE, max_bytes // BYTES_PER_SAMPLE - 1000) * BYTES_PER_SAMPLE
        self._order_limit = order_limit
        self._open: Utterance | None = None
        self._utterances: deque[Utterance] = deque()
        self._tasks = OwnedTasks("openai uploads")
        self._order_timer: asyncio.TimerHandle | None = None

    def _start(self, begin: float) -> None:
        self._open = Utterance(begin)

    def _take(self, frame: AudioFrame) -> None:
        if self._open is None:
            return
        self._open.pcm += frame.data
        if not self._open.has_sound and frame.data:
            samples = array("h", frame.data)
            self._open.has_sound = max(samples) > QUIET or min(samples) < -QUIET

    def _finish(self) -> None:
        utterance, self._open = self._open or Utterance(0.0), None
        self._utterances.append(utterance)
        if utterance.has_sound:
            self._tasks.start(self._run(utterance), "upload")
        else:
            self._settle(utterance, STTFinal(text="", language=self._asked.language))

    def _forget(self) -> None:
        self._open = None
        self._tasks.cancel()
        self._utterances.clear()

    async def aclose(self) -> None:
        self._end(None)
        self._tasks.cancel()
        await self._tasks.finish(CLOSE_LIMIT)

    def _end(self, error: ProviderError | None) -> None:
        super()._end(error)
        if self._order_timer is not None:
            self._order_timer.cancel()
            self._order_timer = None

    async def _run(self, utterance: Utterance) -> None:
        try:
            self._settle(utterance, await self._transcript(utterance))
        except Exception as error:  # noqa: BLE001 - nobody else would see the end of this task
            self._end(as_provider_error(error, PROVIDER))
            self._tasks.cancel()

    async def _transcript(self, utterance: Utterance) -> STTFinal:
        pcm = bytes(utterance.pcm)
        seconds = len(pcm) / BYTES_PER_SAMPLE / RATE
        parts: list[Heard] = []
        for at in range(0, len(pcm), self._most):
            begin = utterance.begin + at / BYTES_PER_SAMPLE / RATE
            parts.append(await self._heard(pcm[at : at + self._most], begin))
        return STTFinal(
            text=" ".join(part.text for part in parts if part.text),
            words=tuple(word for part in parts for word in part.words),
            language=next((part.language for part in parts if part.language), self._asked.language),
            audio_seconds=seconds,
        )

    async def _heard(self, pcm: bytes, begin: float) -> Heard:
        import aiohttp

        pcm += bytes(max(0, round(MIN_SECONDS * RATE) * BYTES_PER_SAMPLE - len(pcm)))
        form = aiohttp.FormData()
        for name, value in self._asked.fields():
            form.add_field(name, value)
        form.add_field("file", wav_of(pcm, RATE), filename="speech.wav", content_type="audio/wav")
        signature = await self._endpoint.sign()
        failures = self._fail(signature)
        data = b""
        try:
            async with self._client.request("audio/transcriptions", failures, data=form, headers=signature) as response:
                async with aclosing(response.chunks()) as pieces:
                    async for piece in pieces:
                        data += piece
        except ProviderStatusError as error:
            if error.status != TOO_LARGE:
                raise
            logger.warning("openai: an utterance was too large for the server, and is lost: %s", error)
            return Heard()
        return heard_of(json_object(data, failures), self._asked, begin)

    def _settle(self, utterance: Utterance, final: STTFinal) -> None:
        utterance.final = final
        self._report()
        if self._utterances and self._order_timer is None and any(one.final for one in self._utterances):
            loop = asyncio.get_running_loop()
            self._order_timer = loop.call_later(self._order_limit, self._release)

    def _report(self) -> None:
        while self._utterances and (final := self._utterances[0].final) is not None:
            self._utterances.popleft()
            self._events.put(final)

    def _release(self) -> None:
        """Wait no longer for a transcript that later ones wait for."""
        self._order_timer = None
        if self._utterances and any(one.final for one in self._utterances):
            logger.warning("openai: a transcript did not come; those behind it go on")
            self._settle(self._utterances[0], STTFinal(text="", language=self._asked.language))
