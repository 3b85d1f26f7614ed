"""Recognizer: the stage of an STT. If a stream is lost, the audio until the next one is kept for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import anyio
from anyio import TASK_STATUS_IGNORED
from anyio.abc import TaskStatus

from vivavoce.pipelines.core.clock import TimerHandle
from vivavoce.pipelines.core.errors import ProviderError
from vivavoce.pipelines.core.incidents import dropping
from vivavoce.pipelines.core.reconnect import ReconnectingStream
from vivavoce.pipelines.core.retry import RetryOptions
from vivavoce.pipelines.core.words import unless_blank
from vivavoce.pipelines.events import (
    LATE_WORDS,
    PipelineEvent,
    PipelineFailed,
    RecogniserBack,
    RecogniserLost,
    UserFinal,
    UserInterim,
    UserTurnEnded,
    UserTurnEndedEagerly,
    UserTurnResumed,
)
from vivavoce.pipelines.media.buffer import RecentFrames
from vivavoce.pipelines.media.frame import AudioFrame
from vivavoce.pipelines.media.resample import Resampler
from vivavoce.pipelines.pipeline import PipelineContext
from vivavoce.pipelines.stt.audio_times import AudioTimes
from vivavoce.pipelines.stt.base import (
    STT,
    STT_EVENTS,
    STTEagerEndOfTurn,
    STTEvent,
    STTFinal,
    STTInterim,
    STTStream,
    STTTurnResumed,
    open_stream,
)
from vivavoce.pipelines.stt.recognised import RecognisedFields

KEPT_SECONDS = 10.0
"""Audio that is kept for the next stream while there is none."""


class Recognizer(ReconnectingStream[STTStream, STTEvent]):
    """Emits one session's transcripts.

    The words of a lost stream's interim are emitted as a final transcript, since the next stream does not hear them.

    Args:
        stt: Shared; only the streams opened here are closed here.
        retries: As for ReconnectingStream.
    """

    def __init__(self, stt: STT, retries: RetryOptions, context: PipelineContext) -> None:
        super().__init__(
            stt.provider,
            STT_EVENTS,
            clock=context.clock,
            retries=retries,
            open_limit=context.open_limit,
            on_failure=self._report,
        )
        self._stt = stt
        self._key_terms = context.key_terms
        self._emit = context.emit
        self._input_rate = context.input_rate
        self._kept = RecentFrames(KEPT_SECONDS, dropping("stt"))
        self._stream: STTStream | None = None
        self._times = AudioTimes()
        """The session's times of the present stream's audio."""
        self._before: STTStream | None = None
        """A lost stream that may have kept audio for the next one."""
        self._has_given_up = False
        self._speech_at: float | None = None
        self._is_flush_due = False
        self._interim: UserInterim | None = None
        """The words that were shown and that no final has settled."""
        self.has_ended_turn = False
        """Whether it has judged that the turn is over, and neither words nor speech have come since."""
        self._successor_speaks = False
        """Whether another recogniser may have words by now: then the words of this one are past."""
        self._life = anyio.CancelScope()
        self._leaves_at: TimerHandle | None = None
        """The timer for the time after which no words of this recogniser can come any more, once it was left."""

    async def run(self, *, task_status: TaskStatus[None] = TASK_STATUS_IGNORED) -> None:
        """Recognise until cancelled, or until left.

        Raises:
            ProviderError: The first stream cannot be opened.
        """
        try:
            with self._life:
                await super().run(task_status=task_status)
        finally:
            if self._leaves_at is not None:
                self._leaves_at.cancel()

    def hear_out(self, on_lost: Callable[[], None]) -> None:
        """Hear the present utterance to its end; another recogniser hears the next one.

        Args:
            on_lost: Called if the recogniser is lost for good before that, which is not a loss of the pipeline.
        """
        emit = self._emit

        def emit_but_loss(event: PipelineEvent) -> None:
            if isinstance(event, PipelineFailed) and not event.recovered:
                emit(replace(event, recovered=True, unheard=()))
                on_lost()
            else:
                emit(event)

        self._emit = emit_but_loss

    def leave(self) -> None:
        """Stop hearing, since another recogniser has taken over. `run()` ends when no words can come any more.

        Until then it settles the audio that it has heard.
        """
        self._emit = partial(self._emit_late, self._emit)
        self._leaves_at = self._clock.call_at(self._clock.now() + LATE_WORDS, self._life.cancel)

    def become_past(self) -> None:
        """Note that the successor may have words from now on."""
        self._successor_speaks = True

    def _emit_late(self, emit: Callable[[PipelineEvent], None], event: PipelineEvent) -> None:
        """Emit an event of this recogniser after it was left: finals, and a failure to close it."""
        if isinstance(event, UserFinal):
            if unless_blank(event.text):
                emit(replace(event, is_past=self._successor_speaks))
        elif isinstance(event, PipelineFailed) and event.recovered:
            emit(event)

    @property
    def is_lost(self) -> bool:
        """Whether the stream was lost and no other one is open yet."""
        return self._lost is not None

    @property
    def rate(self) -> int:
        """The sample rate in Hz of the frames that it takes."""
        return self._stt.capabilities.sample_rate

    @property
    def decides_turns(self) -> bool:
        """Whether it judges the ends of turns by itself, and settles its words then."""
        can = self._stt.capabilities
        return can.emits_end_of_turn and not can.needs_flush

    # --- the caller

    def push(self, frame: AudioFrame) -> None:
        """Take one frame at the recogniser's rate."""
        if self._stream is None:
            if not self._has_given_up:
                self._kept.push(frame)
            return
        try:
            self._stream.push(frame)
            self._times.push(frame.duration, self._clock.now())
        except (Exception, SystemExit) as error:  # noqa: BLE001 - the boundary to the recogniser's code: another stream is opened
            self._leave_broken(error)
            self._kept.push(frame)

    def speech_started(self, ago: float) -> None:
        """Report to the recogniser that speech began `ago` seconds before the end of the newest frame."""
        self._speech_at = self._clock.now() - ago
        self._is_flush_due = self.has_ended_turn = False  # kept audio of two utterances is heard as one
        if self._stream is not None:
            self._call(self._stream.speech_started, ago)

    def speech_ended(self) -> None:
        """Report to the recogniser that speech has ended; unless it decides turns, it settles the utterance."""
        if not self.decides_turns:
            self.flush()
            return
        self._speech_at = None
        if self._stream is not None:
            self._call(self._stream.speech_ended)

    def voice_changed(self, *, is_paused: bool) -> None:
        """Report to the recogniser that the voice pauses within speech, or goes on."""
        if self._stream is not None:
            self._call(self._stream.voice_paused if is_paused else self._stream.voice_resumed)

    def flush(self) -> None:
        """Have the recogniser settle the utterance, which is over."""
        self._speech_at = None
        if self._stream is not None:
            self._call(self._stream.flush)
        else:
            self._is_flush_due = True

    def discard(self) -> None:
        self._interim = None
        self._is_flush_due = False
        if self._stream is not None:
            self._call(self._stream.discard)
        else:
            self._kept.drain()
            self._before = None

    def _call(self, call: Callable[..., None], *args: object) -> None:
        try:
            call(*args)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - as above
            self._leave_broken(error)

    def _leave_broken(self, error: BaseException) -> None:
        """Keep the frames from now on for the next stream."""
        self._leave_stream()
        self._break(error)

    def _leave_stream(self) -> None:
        if self._stream is not None:
            self._before, self._stream = self._stream, None

    # --- for ReconnectingStream

    async def _open(self) -> STTStream:
        return await open_stream(self._stt, self._key_terms)

    def _begin(self, stream: STTStream) -> None:
        self._stream, before, self._before = stream, self._before, None
        self._times = AudioTimes()
        if before is not None:
            self._call(before.replay, self.push, stream.speech_started, stream.flush)
        for frame in self._kept.drain():
            self.push(frame)
        if self._speech_at is not None:
            self._call(stream.speech_started, self._clock.now() - self._speech_at)
        if self._is_flush_due:
            self._is_flush_due = False
            self._call(stream.flush)
        if self._lost is not None:
            self._emit(RecogniserBack())

    def _take(self, event: STTEvent) -> None:
        self.has_ended_turn = False
        if isinstance(event, STTInterim):
            self._show(UserInterim(**self._heard(event)))
        elif isinstance(event, STTEagerEndOfTurn):
            shown = "" if self._interim is None else self._interim.text
            if event.text not in ("", shown):
                self._show(UserInterim(text=event.text))
            self._emit(UserTurnEndedEagerly())
        elif isinstance(event, STTTurnResumed):
            self._emit(UserTurnResumed())
        elif isinstance(event, STTFinal):
            self._interim = None
            self._emit(UserFinal(**self._heard(event), audio_seconds=event.audio_seconds))
        else:
            self._interim, self.has_ended_turn = None, True
            self._emit(UserTurnEnded())

    def _heard(self, event: STTInterim | STTFinal) -> RecognisedFields:
        fields = event.recognised()
        fields["words"] = self._times.words(event.words)
        return fields

    def _show(self, interim: UserInterim) -> None:
        self._interim = interim
        self._emit(interim)

    def _end(self) -> None:
        self._leave_stream()
        if self._lost is None:
            return
        if self._interim is not None:
            interim, self._interim = self._interim, None
            if interim.text:
                self._emit(UserFinal(**interim.recognised()))
        self._emit(RecogniserLost())
        if self._leaves_at is not None:
            self._life.cancel()

    def _give_up(self) -> None:
        self._has_given_up = True

    def _report(self, error: ProviderError, recovered: bool) -> None:
        unheard: list[AudioFrame] = []
        if not recovered:
            resampler = Resampler(self._stt.capabilities.sample_rate, self._input_rate)
            kept: list[AudioFrame] = []
            if self._before is not None:
                self._call(self._before.replay, kept.append, lambda _: None, lambda: None)
            unheard = [frame for one in (*kept, *self._kept.drain()) if (frame := resampler.push(one)).data]
        self._emit(PipelineFailed(error, recovered, "stt", tuple(unheard)))
