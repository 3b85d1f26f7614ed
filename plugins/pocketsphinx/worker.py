"""DecoderThread: a decoder's thread, its bounded inbox and its reports to the event loop."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from vivavoce.pipelines.core.errors import ConfigurationError, ProviderError
from vivavoce.pipelines.media.frame import BYTES_PER_SAMPLE
from vivavoce.plugins.pocketsphinx.decoder import Decoder, DecoderModel

logger = logging.getLogger(__name__)

PROVIDER = "pocketsphinx"
SAMPLE_RATE = 16000


@dataclass(frozen=True, slots=True)
class Ready:
    """The decoder is loaded."""


@dataclass(frozen=True, slots=True)
class Heard:
    """The present words of utterance number `utterance`."""

    utterance: int
    text: str
    is_final: bool
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Failed:
    """The decoder cannot be loaded or is lost."""

    error: ConfigurationError | ProviderError


@dataclass(frozen=True, slots=True)
class Ended:
    """The thread is over; the last report."""


Report = Ready | Heard | Failed | Ended


@dataclass(frozen=True, slots=True)
class _Order:
    """A mark between frames."""

    kind: Literal["begin", "end", "drop"]
    utterance: int


class DecoderThread:
    """Decodes audio in order, and reports on the loop.

    Args:
        model: Loads the decoder, in the thread.
        max_backlog: Seconds of audio that may wait.
        report: Called on the loop that started the thread.
        on_drop: Called for each frame that was dropped because the decoder fell behind.
    """

    def __init__(
        self,
        model: DecoderModel,
        *,
        max_backlog: float,
        report: Callable[[Report], None],
        on_drop: Callable[[], None],
    ) -> None:
        self._model = model
        self._limit = round(max_backlog * SAMPLE_RATE) * BYTES_PER_SAMPLE
        self._report = report
        self._on_drop = on_drop
        self._loop = asyncio.get_running_loop()
        self._wake = threading.Condition()
        self._inbox: deque[bytes | _Order] = deque()
        self._waiting = 0
        self._is_stopped = False
        self.dropped = 0
        """Frames dropped because the decoder fell behind."""
        # daemon: an owner that forgets aclose() must not hold up the interpreter's exit
        threading.Thread(target=self._run, name="pocketsphinx", daemon=True).start()

    def begin(self, utterance: int) -> None:
        """Begin an utterance; the frames that follow are its audio."""
        self._put(_Order("begin", utterance))

    def feed(self, pcm: bytes) -> None:
        """Queue one frame, dropping the oldest that wait if there are too many."""
        with self._wake:
            self._inbox.append(pcm)
            self._waiting += len(pcm)
            while self._waiting > self._limit:
                oldest = next(item for item in self._inbox if isinstance(item, bytes))
                self._inbox.remove(oldest)
                self._waiting -= len(oldest)
                self.dropped += 1
                self._on_drop()
            self._wake.notify()

    def end(self, utterance: int) -> None:
        """End the utterance; its final hypothesis follows."""
        self._put(_Order("end", utterance))

    def drop(self, utterance: int) -> None:
        """Forget the utterance and the waiting audio."""
        with self._wake:
            self._inbox = deque(item for item in self._inbox if not isinstance(item, bytes))
            self._waiting = 0
        self._put(_Order("drop", utterance))

    def stop(self) -> None:
        """End the thread after its present call; `Ended` is reported."""
        with self._wake:
            self._is_stopped = True
            self._wake.notify()

    def _put(self, order: _Order) -> None:
        with self._wake:
            self._inbox.append(order)
            self._wake.notify()

    def _take(self) -> bytes | _Order | None:
        with self._wake:
            while not self._inbox and not self._is_stopped:
                self._wake.wait()
            if self._is_stopped:
                return None
            item = self._inbox.popleft()
            if isinstance(item, bytes):
                self._waiting -= len(item)
            return item

    def _run(self) -> None:
        try:
            self._decode(self._model.load())
        except ConfigurationError as error:
            self._tell(Failed(error))
        except Exception as error:  # noqa: BLE001 - the thread's boundary; the owner receives it with its cause
            lost = ProviderError(f"the decoder failed: {error}", provider=PROVIDER, retryable=True)
            lost.__cause__ = error
            self._tell(Failed(lost))
        finally:
            self._tell(Ended())

    def _decode(self, decoder: Decoder) -> None:
        self._tell(Ready())
        is_open, text, utterance = False, "", 0
        while (item := self._take()) is not None:
            if isinstance(item, _Order):
                if is_open:
                    self._finish(decoder, item, utterance)
                is_open, text, utterance = item.kind == "begin", "", item.utterance
                if is_open:
                    decoder.begin()
            elif is_open:
                before, text = text, decoder.feed(item)
                if text != before:
                    self._tell(Heard(utterance, text, is_final=False))
                _let_others_run()

    def _finish(self, decoder: Decoder, order: _Order, utterance: int) -> None:
        if order.kind == "end":
            self._tell(Heard(utterance, decoder.end(_let_others_run), is_final=True, seconds=decoder.seconds))
        else:
            decoder.abandon()

    def _tell(self, report: Report) -> None:
        try:
            self._loop.call_soon_threadsafe(self._report, report)
        except RuntimeError:  # the loop is closed: its owner forgot aclose()
            logger.debug("the event loop is gone; nobody is left to tell")
            self._is_stopped = True


def _let_others_run() -> None:
    """Release the interpreter to the event loop, since the decoder holds it while it computes."""
    time.sleep(0)  # noqa: TID251 - a thread of its own, and no time passes
