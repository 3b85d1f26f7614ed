"""Recorder: writes one recording from its begin to its end, two tracks into one file, in a thread."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

import anyio
import anyio.to_thread

from vivavoce.agents.audio.recording.track import Track
from vivavoce.agents.records import RecordingRecord
from vivavoce.pipelines.core.clock import Clock
from vivavoce.pipelines.core.errors import SessionError
from vivavoce.pipelines.media.frame import BYTES_PER_SAMPLE, AudioFrame
from vivavoce.pipelines.media.stereo_file import StereoFile, create

logger = logging.getLogger(__name__)

LAG = 0.5
"""Seconds after which no more audio of a moment arrives: longer than the queue of a sink or a delay of the event
loop."""
PERIOD = 0.5
"""Seconds between two writes."""
WRITE_LIMIT = 5.0
"""Seconds for one write, and for making the file."""

T = TypeVar("T")


class Recorder:
    """One recording: call `open`, then run `run`; `finish` ends it.

    Args:
        path: The file; if it exists, one beside it is made.
        began_at: Session clock at the session's start, for the record.
    """

    def __init__(self, path: Path, sample_rate: int, clock: Clock, *, began_at: float) -> None:
        self._path = path
        self._rate = sample_rate
        self._clock = clock
        self._session_start = began_at
        self._caller = Track(sample_rate)
        self._agent = Track(sample_rate)
        self._file: StereoFile | None = None
        self._begin = 0.0
        self._written = 0
        self._is_over = False
        self._lock = anyio.Lock()
        self._guard = threading.Lock()
        self._is_at_work = self._is_abandoned = False
        self.is_paused = False
        """Whether silence is recorded, on both sides."""
        self.error = ""

    async def open(self) -> None:
        """Make the file; the recording begins now.

        Raises:
            OSError, ImportError, SessionError: The file cannot be made, or not in time.
        """
        await self._in_thread(self._create)
        self._begin = self._clock.now()

    @property
    def record(self) -> RecordingRecord:
        """The recording so far, as the report has it."""
        return RecordingRecord(
            path=str(self._path if self._file is None else self._file.path),
            started_at=self._begin - self._session_start,
            seconds=self._written / self._rate,
            sample_rate=self._rate,
            error=self.error,
        )

    def pause(self) -> None:
        """Record silence on both sides."""
        self.is_paused = True

    def resume(self) -> None:
        """Record sound again."""
        self.is_paused = False

    # --- audio, synchronous

    def heard(self, frame: AudioFrame) -> None:
        """Add the caller's next frame."""
        if not (self._is_over or self.is_paused):
            self._caller.heard(frame, self._clock.now() - self._begin)

    def wrote(self, frame: AudioFrame, queued: int) -> None:
        """Add the agent's next frame, which the sink has queued; with it, `queued` samples are in the queue."""
        if not (self._is_over or self.is_paused):
            ahead = (queued - frame.samples) / frame.sample_rate
            self._agent.plays(frame, self._clock.now() - self._begin + max(0.0, ahead))

    def cleared(self, samples: int) -> None:
        """Remove the agent's last `samples` samples, which were taken back before they were played."""
        self._agent.unplayed(samples)

    # --- the file

    async def run(self) -> None:
        """Write until `finish()`.

        Raises:
            OSError, SessionError: The disk is full, gone, or hangs; the recording is over then.
        """
        while not self._is_over:
            await anyio.sleep(PERIOD)
            async with self._lock:
                if not self._is_over:
                    await self._write(self._clock.now() - self._begin - LAG)

    async def finish(self) -> None:
        """End the file now; no effect the second time.

        Raises:
            OSError, SessionError: As `run()`.
        """
        until = self._clock.now() - self._begin
        was_over, self._is_over = self._is_over, True
        with anyio.CancelScope(shield=True):  # bounded by WRITE_LIMIT; a file cut here would lack its end
            async with self._lock:
                if was_over or self._file is None:
                    return
                await self._write(until, is_last=True)
                await self._in_thread(self._file.close)

    def fail(self, error: str) -> None:
        """End the recording by an error: nothing more is recorded or written."""
        self._is_over = True
        self.error = error

    async def abandon(self) -> None:
        """Close the file of a recording that failed, if the disk allows it.

        A thread that still works on the file closes it at its end: a codec may be used by one thread at a time.
        """
        with self._guard:
            self._is_abandoned = True
            if self._is_at_work or self._file is None:
                return
        try:
            await self._in_thread(self._close)
        except (OSError, SessionError) as error:
            logger.debug("A recording that failed could not be closed either: %s", error)

    def _close(self) -> None:
        if self._file is not None:
            self._file.close()

    def _work(self, work: Callable[[], T]) -> T:
        """Work on the file, in the thread."""
        with self._guard:
            self._is_at_work = True
        try:
            return work()
        finally:
            with self._guard:
                self._is_at_work = False
                is_left = self._is_abandoned
            if is_left:
                self._close()

    def _create(self) -> None:
        self._file = create(self._path, self._rate)

    async def _write(self, until: float, *, is_last: bool = False) -> None:
        if until <= 0 or self._file is None:
            return
        caller, agent = self._caller.take(until, is_last=is_last), self._agent.take(until, is_last=is_last)
        samples = min(len(caller), len(agent)) // BYTES_PER_SAMPLE
        if not samples:
            return
        from vivavoce.pipelines.core.native_threads import numpy as np

        size = samples * BYTES_PER_SAMPLE
        both = np.empty((samples, 2), np.int16)
        both[:, 0] = np.frombuffer(bytes(caller[:size]), np.int16)
        both[:, 1] = np.frombuffer(bytes(agent[:size]), np.int16)
        self._caller.forget(samples)
        self._agent.forget(samples)
        await self._in_thread(partial(self._file.write, both.tobytes()))
        self._written += samples

    async def _in_thread(self, work: Callable[[], T]) -> T:
        with self._clock.hold():
            try:
                with anyio.fail_after(WRITE_LIMIT):
                    return await anyio.to_thread.run_sync(self._work, work, abandon_on_cancel=True)
            except TimeoutError as error:
                raise SessionError(f"the disk did not take the recording within {WRITE_LIMIT:g} s") from error
