"""TurnRecordBuilder: collects the times of one turn as they happen and makes its TurnRecord."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from vivavoce.agents.records import (
    FallbackRecord,
    GuardRecord,
    HandoffRecord,
    RetryRecord,
    ToolRecord,
    TurnOutcome,
    TurnRecord,
    UsageRecord,
)
from vivavoce.agents.turn.effects import TurnTiming
from vivavoce.agents.turn.options import EndpointingOptions
from vivavoce.agents.turn_records.interruptions import InterruptionLog
from vivavoce.agents.turn_records.parts import PlayedStep, TurnParts
from vivavoce.agents.turn_records.stages import Stages, configured_waits
from vivavoce.pipelines.core.errors import describe
from vivavoce.pipelines.core.incidents import FellBack
from vivavoce.pipelines.events import PipelineUsage
from vivavoce.pipelines.llm.base import Usage
from vivavoce.pipelines.stt.recognised import earlier

UNKNOWN_TOOL = "_unknown"
"""Stands for the name of a tool that does not exist, where content is not kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnFrame:
    """The session's part of a turn's record.

    Args:
        session_start: Session clock at the session's start; the record's times count from it.
        agent_id: The agent that had the conversation as the turn began.
        trace_id: Of the session's trace; empty where it is not traced.
        captures_content: Whether texts go into the record.
        has_server_vad: Whether a model's server reports the end of speech.
        vad_silence: Seconds by which the session's own VAD reports it late.
        answers_turn_id: The turn that the session answers late with this one.
    """

    session_start: float
    session_id: str = ""
    agent_id: str = ""
    trace_id: str = ""
    captures_content: bool = True
    has_server_vad: bool = False
    vad_silence: float = 0.0
    endpointing: EndpointingOptions = EndpointingOptions()
    answers_turn_id: str = ""
    policy: Literal["pause", "immediate", "custom"] = "pause"


class TurnRecordBuilder:
    """Builds one record. Stages are contiguous from the true end of the user's speech to the first frame played.

    A provider's stage begins with the request to it: time before that is marked `unattributed`.

    Args:
        frame: The session's part of the record.
        now: When the turn's speech was created.
        speech_id: The speech that answers the turn.
        parts: The parts of the user's turn, to which those of the answer are added; None for a `say` or `reply`.
    """

    def __init__(
        self,
        turn_id: str,
        kind: Literal["turn", "say", "reply"],
        *,
        frame: TurnFrame,
        now: float,
        speech_id: str = "",
        parts: TurnParts | None = None,
    ) -> None:
        self.turn_id = turn_id
        self.kind = kind
        self.speech_id = speech_id
        self.user_text = ""
        self.agent_text: list[str] = []
        self.heard_text: list[str] = []
        self.error = ""
        self.is_empty = False
        self.answered_turn: TurnRecordBuilder | None = None
        """The turn that hands off to the agent which speaks here. The caller hears this speech as its answer."""
        self.preemptive = False
        self.llm_first_token: float | None = None
        self.tts_first_byte: float | None = None
        self.stages = Stages(now)
        self.mark = self.stages.mark
        """Ends a stage. Each frame of a voice calls it, so it must be one call."""
        self.parts = TurnParts(turn_id, now) if parts is None else parts
        self.interruptions = InterruptionLog(frame.policy, session_start=frame.session_start, parts=self.parts)
        self.usage = UsageRecord()
        self.audio = Heard()
        self._state = ""
        self._transitions: list[str] = []
        self._frame = frame
        self._step: PlayedStep | None = None
        self._user = _User()
        self._lists = _Lists([], [], [], [], [], [])

    def committed(self, timing: TurnTiming, user_text: str, *, speech_started_at: float | None = None) -> None:
        """Take the turn machine's facts of the end of the user's turn.

        Args:
            speech_started_at: The true onset of the user's speech; None where there was none.
        """
        self.user_text = user_text
        self._user = _User(timing, speech_started_at)
        self.stages.committed(timing, is_server_vad=self._frame.has_server_vad)

    @property
    def user_onset(self) -> float | None:
        """The true onset of the user's speech on the session clock; None where there was none, as for typed text."""
        return self._user.started_at

    def amended(self, user_text: str, is_edited: bool) -> None:
        """Take the user's words as their message has them now; an edit replaces the recogniser's words too."""
        self.user_text = user_text
        if is_edited:
            self.parts.forget_words()

    def hands_off_from(self, turn: TurnRecordBuilder | None) -> None:
        """Note the turn that hands off to the agent which speaks here."""
        self.answered_turn = turn

    def failed(self, error: str) -> None:
        """Note the error of the answer."""
        self.error = error

    def empty(self) -> None:
        """Note that the answer has no audio."""
        self.is_empty = True

    def left_out(self, text: str) -> None:
        """Note a text for which the voice yields no audio."""
        self._lists.unvoiced.append(text)

    def begun_ahead(self) -> None:
        """Note that the answer was begun before the turn was over."""
        self.preemptive = True

    def first_token(self, seconds: float) -> None:
        """Note the model's time to its first word or call."""
        self.llm_first_token = seconds

    def first_byte(self, seconds: float | None) -> None:
        """Note the voice's time to its first audio."""
        self.tts_first_byte = seconds

    def played(self, at: float) -> None:
        """The first frame of a step is played; the latency counts the turn's first one only."""
        if self._step is None:
            self._step = PlayedStep(at)
        self._end_silence(at)

    def _end_silence(self, at: float) -> None:
        self.stages.played(at)
        if self.answered_turn is not None:
            self.answered_turn.mark("handoff", "user_code", at)
            self.answered_turn._end_silence(at)

    def taken_back(self, at: float) -> None:
        """The frame that was due at that time was not played."""
        if self._step is not None and self._step.began_at == at:
            self._step = None
        self.stages.taken_back(at)
        if self.answered_turn is not None:
            self.answered_turn.taken_back(at)

    def heard(self, text: str, *, played: float, generated: float) -> None:
        """Add the words and the audio (s) of a step that the caller has heard, and the audio that was generated."""
        self.heard_text.append(text)
        self.audio.played += played
        self.audio.generated += generated

    def step_played(self, at: float) -> None:
        """The last frame of a step has been played."""
        self._end_step(at, is_cut=False)

    @property
    def is_audible(self) -> bool:
        """Whether the caller hears a step of the speech, or is about to."""
        return self._step is not None

    def _end_step(self, at: float, *, is_cut: bool) -> None:
        step, self._step = self._step, None
        if step is not None:
            step.began_at = min(step.began_at, at)  # it may be cut before its first frame is heard
            step.ended_at, step.is_cut = at, is_cut
            self.parts.playouts.append(step)

    def end_parts(self, now: float, *, is_cut: bool) -> None:
        """The speech is over: end its playout and its hold."""
        self.interruptions.close(now, is_cut=is_cut)
        self._end_step(now, is_cut=is_cut)

    def answers(self, turn_id: str) -> None:
        """The session itself requested this speech, which answers that turn late."""
        self._frame = replace(self._frame, answers_turn_id=turn_id)

    def moved(self, transition: str) -> None:
        """The turn took that transition of the conversation graph."""
        self._transitions.append(transition)

    def answered_in(self, state: str) -> None:
        """Note the state of the conversation graph that answers the turn."""
        self._state = state

    def add_tool(self, tool: ToolRecord) -> None:
        """A tool call was settled; its `started_at` is still the session clock's."""
        self._lists.tools.append(replace(tool, started_at=tool.started_at - self._frame.session_start))

    def add_handoff(self, handoff: HandoffRecord) -> None:
        """A tool of the turn handed the conversation off."""
        self._lists.handoffs.append(handoff)

    def add_retry(self, error: Exception, attempt: int, at: float) -> None:
        """A provider failed and is tried again."""
        provider = str(getattr(error, "provider", ""))
        at -= self._frame.session_start
        self._lists.retries.append(RetryRecord(provider=provider, attempt=attempt, error=describe(error), at=at))

    def add_fallback(self, fell: FellBack, at: float) -> None:
        """A component failed and another one takes its place."""
        failed = "/".join(part for part in (fell.provider, fell.model) if part)
        at -= self._frame.session_start
        error = describe(fell.error)
        self._lists.fallbacks.append(
            FallbackRecord(component=fell.component, provider=failed, successor=fell.successor, error=error, at=at)
        )

    def add_guard(self, verdict: GuardRecord) -> None:
        """The content guard has judged a text."""
        self._lists.guards.append(verdict)

    def add_usage(self, usage: UsageRecord) -> None:
        """Add to the usage of the turn."""
        self.usage = add_usage(self.usage, usage)

    def build(self, outcome: TurnOutcome, now: float) -> TurnRecord:
        """Return the record of the turn that ended now."""
        self.end_parts(now, is_cut=outcome != "completed")
        frame, stages, timing = self._frame, self.stages, self._user.timing
        start, records = frame.session_start, stages.records()
        captures, heard = frame.captures_content, self.parts.heard
        speech_ended_at = stages.speech_ended_at
        onset, first_played_at = self._user.started_at, stages.first_played_at
        return TurnRecord(
            turn_id=self.turn_id,
            kind=self.kind,
            user_text=self.user_text if captures else "",
            user_words=earlier(heard.words, start) if captures else (),
            speakers=tuple(heard.speakers),
            languages=heard.most_spoken,
            confidence=heard.mean_confidence,
            agent_text=_joined(self.agent_text) if captures else "",
            heard_text=_joined(self.heard_text) if captures else "",
            outcome=outcome,
            interrupted=outcome == "interrupted",
            e2e_latency=stages.latency,
            stages=records,
            tools=tuple(tool if captures else _without_content(tool) for tool in self._lists.tools),
            handoffs=tuple(self._lists.handoffs),
            is_empty=self.is_empty and outcome == "completed",
            unvoiced=tuple(text if captures else "" for text in self._lists.unvoiced),
            answers_turn_id=frame.answers_turn_id,
            ended_by=None if timing is None else timing.ended_by,
            endpointing_delay=None if timing is None else timing.delay,
            started_at=(stages.created_at if speech_ended_at is None else speech_ended_at) - start,
            ended_at=now - start,
            error=self.error,
            preemptive=self.preemptive,
            llm_first_token=self.llm_first_token,
            tts_first_byte=self.tts_first_byte,
            session_id=frame.session_id,
            speech_id=self.speech_id,
            agent_id=frame.agent_id,
            trace_id=frame.trace_id,
            user_started_at=None if onset is None else onset - start,
            user_ended_at=None if onset is None or speech_ended_at is None else speech_ended_at - start,
            committed_at=None if timing is None else timing.committed_at - start,
            first_audio_at=None if first_played_at is None else first_played_at - start,
            played_seconds=self.audio.played,
            generated_seconds=self.audio.generated,
            interruptions=tuple(self.interruptions.records),
            retries=tuple(self._lists.retries),
            fallbacks=tuple(self._lists.fallbacks),
            guards=tuple(self._lists.guards),
            waits=() if timing is None else configured_waits(records, timing, frame.endpointing, frame.vad_silence),
            usage=self.usage,
            graph_state=self._state,
            transitions=tuple(self._transitions),
        )


@dataclass(slots=True)
class Heard:
    """Seconds of the agent's audio in a turn: `played` to the caller, and `generated`."""

    played: float = 0.0
    generated: float = 0.0


@dataclass(frozen=True, slots=True)
class _User:
    """The user's turn, where there is one."""

    timing: TurnTiming | None = None
    started_at: float | None = None


@dataclass(frozen=True, slots=True)
class _Lists:
    tools: list[ToolRecord]
    handoffs: list[HandoffRecord]
    retries: list[RetryRecord]
    fallbacks: list[FallbackRecord]
    guards: list[GuardRecord]
    unvoiced: list[str]


def add_usage(one: UsageRecord, other: UsageRecord) -> UsageRecord:
    """Return the sum of both."""
    return UsageRecord(
        llm_input_tokens=one.llm_input_tokens + other.llm_input_tokens,
        llm_output_tokens=one.llm_output_tokens + other.llm_output_tokens,
        llm_cached_tokens=one.llm_cached_tokens + other.llm_cached_tokens,
        llm_cache_write_tokens=one.llm_cache_write_tokens + other.llm_cache_write_tokens,
        tts_characters=one.tts_characters + other.tts_characters,
        tts_audio_seconds=one.tts_audio_seconds + other.tts_audio_seconds,
        stt_audio_seconds=one.stt_audio_seconds + other.stt_audio_seconds,
        llm_input_audio_tokens=one.llm_input_audio_tokens + other.llm_input_audio_tokens,
        llm_output_audio_tokens=one.llm_output_audio_tokens + other.llm_output_audio_tokens,
        llm_cached_audio_tokens=one.llm_cached_audio_tokens + other.llm_cached_audio_tokens,
        llm_estimated_tokens=one.llm_estimated_tokens + other.llm_estimated_tokens,
        embedding_tokens=one.embedding_tokens + other.embedding_tokens,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class EstimatedUsage(Usage):
    """An estimate of the tokens of a request that was cut before its provider reported them."""


def used_tokens(usage: Usage | PipelineUsage) -> UsageRecord:
    """Return the usage of a model."""
    return UsageRecord(
        llm_input_tokens=usage.input_tokens,
        llm_output_tokens=usage.output_tokens,
        llm_cached_tokens=usage.cached_tokens,
        llm_cache_write_tokens=usage.cache_write_tokens,
        llm_input_audio_tokens=usage.input_audio_tokens,
        llm_output_audio_tokens=usage.output_audio_tokens,
        llm_cached_audio_tokens=usage.cached_audio_tokens,
        llm_estimated_tokens=usage.input_tokens + usage.output_tokens if isinstance(usage, EstimatedUsage) else 0,
    )


def _without_content(tool: ToolRecord) -> ToolRecord:
    """Return a call without content; a name that no tool has is content."""
    return replace(tool, name=tool.name if tool.is_known else UNKNOWN_TOOL, arguments="", output="")


def _joined(texts: list[str]) -> str:
    return " ".join(text for text in texts if text)
