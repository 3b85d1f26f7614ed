"""SessionRecording, which applications start and stop as `session.recording`, and RecordingControl, its state.

A failure of a recording ends that recording with an `error` event (source `recording`); the call goes on.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

from vivavoce.agents.audio.recording.options import RecordingOptions, recording_file
from vivavoce.agents.audio.recording.recorder import Recorder
from vivavoce.agents.audio.recording.sink import RecordedSink
from vivavoce.agents.core.context import SessionContext
from vivavoce.agents.core.done import Done
from vivavoce.agents.records import RecordingRecord
from vivavoce.pipelines.core.checks import awaited
from vivavoce.pipelines.core.errors import (
    ConfigurationError,
    SessionClosedError,
    SessionError,
    SessionNotStartedError,
    describe,
)
from vivavoce.pipelines.io import AudioSink
from vivavoce.pipelines.media.frame import AudioFrame

logger = logging.getLogger(__name__)

CONSENT = "the consent hook"
CONSENT_LIMIT = 60.0
"""Seconds for the consent; after them nothing is recorded."""
_ON_REQUEST = RecordingOptions(autostart=False)
"""The options of a session that has none."""


class SessionRecording:
    """Records the call to a file, on and off. One recording at a time; each has a file of its own."""

    def __init__(self, control: RecordingControl) -> None:
        self._control = control

    @property
    def is_on(self) -> bool:
        """Whether there is a recording now, a paused one included."""
        return self._control.recorder is not None

    @property
    def is_paused(self) -> bool:
        """Whether the recording is silent now."""
        return self._control.recorder is not None and self._control.recorder.is_paused

    @property
    def records(self) -> tuple[RecordingRecord, ...]:
        """The recordings so far, as the session's report has them."""
        return self._control.records

    async def start(self, path: str | Path | None = None) -> bool:
        """Ask for consent, then record to a new file; return whether the call is recorded now.

        It returns False if consent is refused or the file cannot be made, which is an `error` event too.

        Args:
            path: As `RecordingOptions.path`, which it replaces for this recording.
        Raises:
            SessionNotStartedError, SessionClosedError: There is no call to record.
            SessionError: It is recorded already, or the calling code runs on another event loop.
            ConfigurationError: No recording can be such a file.
        """
        return await self._control.start(path)

    async def stop(self) -> None:
        """End the recording, if there is one. Its file is then complete on disk.

        Raises:
            SessionError: The calling code runs on another event loop.
        """
        await self._control.stop()

    def pause(self) -> None:
        """Record silence on both sides, for example while the caller reads a card number. Without a recording it has no
        effect."""
        if self._control.recorder is not None:
            self._control.recorder.pause()

    def resume(self) -> None:
        """Record sound again."""
        if self._control.recorder is not None:
            self._control.recorder.resume()


class RecordingControl:
    """The recordings of a session, which its `recording` shows and starts.

    Args:
        options: None records only after `start()`, with the default options.
    """

    def __init__(self, context: SessionContext, options: RecordingOptions | None) -> None:
        self._context = context
        self._options = options or _ON_REQUEST
        self.recording = SessionRecording(self)
        self.recorder: Recorder | None = None
        """The recording that runs."""
        self._sink: RecordedSink | None = None
        self._recorders: list[Recorder] = []
        self._end: Done | None = None
        """Set when the last recording that was stopped is complete."""
        self._is_open = False
        self._is_asking = False
        self._is_closed = False

    @property
    def records(self) -> tuple[RecordingRecord, ...]:
        """The recordings so far."""
        return tuple(recorder.record for recorder in self._recorders)

    def wrap(self, sink: AudioSink) -> AudioSink:
        """Return the sink, which from now on reports the audio that it plays to the recording."""
        self._sink = RecordedSink(sink)
        return self._sink

    def open(self) -> None:
        """Let recordings begin; begin one if the options ask for it."""
        self._is_open = True
        if self._options.autostart:
            self._context.group.start_soon(self._start_by_itself, name="recording")

    def heard(self, frame: AudioFrame) -> None:
        """Record the caller's next frame, as the pipeline receives it."""
        if self.recorder is not None:
            self.recorder.heard(frame)

    def begin_close(self) -> bool:
        """Let no other recording begin; return whether `stop()` has one to end."""
        self._is_closed = True
        return self.recorder is not None or (self._end is not None and not self._end.is_set())

    async def start(self, path: str | Path | None) -> bool:
        """Ask for consent and record; see `SessionRecording.start`."""
        if self._is_closed:
            raise SessionClosedError("the session is closed; nothing is recorded any more")
        if not self._is_open:
            raise SessionNotStartedError("the session was not started; call start() first, or set RecordingOptions")
        self._context.check_here("recording.start()")
        if self.recorder is not None or self._is_asking:
            raise SessionError("the call is being recorded already; call recording.stop() first")
        file = recording_file(self._options.path if path is None else path, self._context.id)
        self._is_asking = True
        try:
            return await self._has_consent() and await self._begin(file)
        finally:
            self._is_asking = False

    async def stop(self) -> None:
        """End the recording, if there is one, and wait until its file is complete."""
        if self.recorder is not None:
            self._context.check_here("recording.stop()")
        recorder = self._take()
        if recorder is not None:
            self._end = Done()
            # In the session's group: the caller of stop() may be cancelled, and the file needs its end.
            self._context.group.start_soon(self._finish, recorder, self._end, name="recording")
        if self._end is not None:
            await self._end.wait()

    async def _start_by_itself(self) -> None:
        try:
            await self.start(None)
        except (SessionError, ConfigurationError, OSError) as error:  # no caller waits for this call
            logger.error("The call is not recorded: %s", _told(error))
            self._context.report_error(error, "recording")

    async def _has_consent(self) -> bool:
        consent = self._options.consent
        if consent is None:
            return True
        may: Any = None

        async def ask() -> None:
            nonlocal may
            may = await awaited(CONSENT, consent(self._context.session))

        # In a task of its own: the caller of start() may be cancelled in ways that look like a stray there.
        run = self._context.hooks.start("consent", CONSENT, ask, CONSENT_LIMIT, source="recording")
        try:
            await run.finish()
        finally:
            run.cut()
        if run.error is not None:
            return False
        if may is not True:
            logger.info("The caller is not recorded: no consent")
        return may is True and not self._is_closed

    async def _begin(self, file: Path) -> bool:
        recorder = Recorder(file, self._options.sample_rate, self._context.clock, began_at=self._context.log.started_at)
        if not await self._watch(recorder, recorder.open) or self._is_closed:
            return False
        assert self._sink is not None
        self.recorder = recorder
        self._sink.listen(recorder)
        self._recorders.append(recorder)
        logger.info("The call is recorded to %s", recorder.record.path)
        self._context.group.start_soon(self._watch, recorder, recorder.run, name="recording")
        return True

    async def _finish(self, recorder: Recorder, end: Done) -> None:
        try:
            await self._watch(recorder, recorder.finish)
        finally:
            end.set()

    async def _watch(self, recorder: Recorder, work: Callable[[], Any]) -> bool:
        """Work on the file; an error ends that recording and nothing else."""
        try:
            await work()
        except Exception as error:  # noqa: BLE001 - files, threads and codecs fail in many ways, and none ends the call
            recorder.fail(_told(error))
            logger.error("The recording ended by an error: %s; the call goes on", recorder.error)
            self._context.report_error(
                SessionError(f"recording to '{recorder.record.path}': {recorder.error}"), "recording"
            )
            if self.recorder is recorder:
                self._take()
            await recorder.abandon()
            return False
        return True

    def _take(self) -> Recorder | None:
        recorder, self.recorder = self.recorder, None
        if self._sink is not None:
            self._sink.listen(None)
        return recorder


def _told(error: Exception) -> str:
    if isinstance(error, OSError):
        return error.strerror or str(error)
    if isinstance(error, ImportError):
        return "this needs PyAV, which is not installed: run pip install 'vivavoce[audio]'"
    return describe(error)
