"""STT and its stream: utterances cut by the VAD, decoded in a thread of the stream's own."""

from __future__ import annotations

import asyncio
import importlib.util
import logging
from collections.abc import AsyncIterator
from pathlib import Path

from vivavoce.pipelines.core.errors import ConfigurationError, ProviderError, ProviderTimeoutError
from vivavoce.pipelines.core.incidents import dropping
from vivavoce.pipelines.media.frame import AudioFrame
from vivavoce.pipelines.stt import base
from vivavoce.pipelines.stt.base import STTCapabilities, STTEvent, STTFinal, STTInterim
from vivavoce.pipelines.stt.utterance_cutter import UtteranceCutter
from vivavoce.plugins.pocketsphinx.decoder import DecoderModel
from vivavoce.plugins.pocketsphinx.grammar import prepare, read_grammar
from vivavoce.plugins.pocketsphinx.options import STTOptions
from vivavoce.plugins.pocketsphinx.worker import (
    PROVIDER,
    SAMPLE_RATE,
    DecoderThread,
    Ended,
    Failed,
    Heard,
    Ready,
    Report,
)

logger = logging.getLogger(__name__)

LANGUAGE = "en-US"
FILLERS = ("um", "uh", "ah", "ha", "huh", "hmm", "oh")
"""Sounds of people between words; for `STT(fillers=…)`."""

OPEN_LIMIT = 10.0
"""Seconds that loading the decoder may take."""

CLOSE_LIMIT = 2.0
"""Seconds to wait for the decoder's thread to end."""


class STT(base.STT):
    """pocketsphinx; share one between sessions.

    Args:
        grammar: JSGF text or the path of a JSGF file. None recognises general English, and badly: 10 % of a core and
            94 MB a stream for a word error rate that is useless on many voices.
        fillers: Words without meaning (`FILLERS`) that an utterance may consist of, instead of the grammar's words; it
            is then empty. They keep voiced noises from being recognised as words; in return, a short word is taken for
            a filler now and then.
        options: More settings.
    Raises:
        ConfigurationError: The extra is not installed, or the grammar cannot be read. `open()` loads the grammar and
            raises its other errors.
    """

    provider = PROVIDER

    def __init__(
        self,
        *,
        grammar: str | Path | None = None,
        fillers: tuple[str, ...] = (),
        options: STTOptions | None = None,
    ) -> None:
        if importlib.util.find_spec("pocketsphinx") is None:
            raise ConfigurationError(
                "pocketsphinx.STT needs pocketsphinx, which is missing: `pip install 'vivavoce[pocketsphinx]'`"
            )
        self._options = options or STTOptions()
        self._name = "en-us general" if grammar is None else "en-us grammar"
        prepared = None if grammar is None else prepare(read_grammar(grammar), tuple(fillers))
        self._model = DecoderModel(prepared, self._options.pronunciations)

    @property
    def model(self) -> str:
        return self._name

    @property
    def capabilities(self) -> STTCapabilities:
        return STTCapabilities(sample_rate=SAMPLE_RATE, emits_interims=True, needs_flush=True)

    async def open(self) -> STTStream:
        stream = STTStream(self._model, self._options)
        try:
            await stream.wait_ready()
        except BaseException:
            await stream.aclose()
            raise
        return stream


class STTStream(base.STTStream):
    """One session's recognition.

    An utterance begins a moment before the onset of `speech_started()` and ends with `flush()`; silence costs nothing.
    """

    def __init__(self, model: DecoderModel, options: STTOptions) -> None:
        self._options = options
        self._cutter = UtteranceCutter("pocketsphinx.STT", SAMPLE_RATE)
        self._utterance = 0
        self._discarded = 0
        self._events: asyncio.Queue[STTEvent | ProviderError | None] = asyncio.Queue()
        self._ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._ended = asyncio.Event()
        self._is_closed = False
        self._thread = DecoderThread(
            model, max_backlog=options.max_backlog, report=self._on_report, on_drop=dropping("stt")
        )

    @property
    def dropped(self) -> int:
        """Frames that were dropped because the decoder fell behind."""
        return self._thread.dropped

    async def wait_ready(self) -> None:
        """Wait until the decoder is loaded.

        Raises:
            ConfigurationError: The grammar is wrong.
            ProviderError: The decoder does not load.
        """
        try:
            async with asyncio.timeout(OPEN_LIMIT):
                await asyncio.shield(self._ready)
        except TimeoutError as error:
            raise ProviderTimeoutError(
                f"the decoder was not loaded within {OPEN_LIMIT} s", provider=PROVIDER
            ) from error

    def push(self, frame: AudioFrame) -> None:
        if self._cutter.push(frame):
            self._thread.feed(frame.data)

    def speech_started(self, ago: float) -> None:
        if self._cutter.is_open or self._is_closed:
            return
        self._utterance += 1
        self._thread.begin(self._utterance)
        for pcm in self._cutter.begin(ago):
            self._thread.feed(pcm)

    def flush(self) -> None:
        if self._cutter.end():
            self._thread.end(self._utterance)
        elif not self._is_closed:
            self._events.put_nowait(STTFinal(text="", language=LANGUAGE))

    def discard(self) -> None:
        self._discarded = self._utterance
        if self._cutter.end():
            self._thread.drop(self._utterance)

    async def events(self) -> AsyncIterator[STTEvent]:
        while (event := await self._events.get()) is not None:
            if isinstance(event, ProviderError):
                raise event
            yield event

    async def aclose(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            self._cutter.end()
            self._thread.stop()
            self._events.put_nowait(None)
            if self.dropped:
                logger.warning("pocketsphinx fell behind: %d frames were dropped", self.dropped)
        try:
            async with asyncio.timeout(CLOSE_LIMIT):
                await self._ended.wait()
        except TimeoutError:
            logger.warning("pocketsphinx thread did not end within %s s; it is abandoned", CLOSE_LIMIT)

    def _on_report(self, report: Report) -> None:
        match report:
            case Ready():
                if not self._ready.done():
                    self._ready.set_result(None)
            case Failed(error=error):
                self._fail(error)
            case Ended():
                self._ended.set()
            case Heard() if report.utterance > self._discarded:
                self._events.put_nowait(_event(report))

    def _fail(self, error: ConfigurationError | ProviderError) -> None:
        if not self._ready.done():
            self._ready.set_exception(error)
        elif isinstance(error, ProviderError):
            self._events.put_nowait(error)


def _event(heard: Heard) -> STTEvent:
    if not heard.is_final:
        return STTInterim(text=heard.text, language=LANGUAGE)
    return STTFinal(text=heard.text, language=LANGUAGE, audio_seconds=heard.seconds)
