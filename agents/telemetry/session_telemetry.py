"""SessionTelemetry: makes spans and metrics of the reports of one session.

The tree: `session` → `session_start` (each step), `turn` (`user_speech`, `stt`, `end_of_turn`, `attempt`, `hook`, `llm`
or `flow` for each step, `tool`, `tts`, `playout`, `interruption`), `say`, `reply`, `handoff` (its hooks), `wake_up`,
`room` events and `session_close` (each step). Each span's `vivavoce.kind` is one of these; models and tools have the
names of the GenAI conventions (`chat <model>`, `execute_tool <tool>`). A `say` is linked to the span that called it, a
turn to the attempt with which it goes on, and a handoff to the turn that asked for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from opentelemetry.context import get_current
from opentelemetry.trace import Span, SpanContext, SpanKind, get_current_span

from vivavoce.agents import events as ev
from vivavoce.agents.records import ComponentRecord, DropReason, TurnRecord
from vivavoce.agents.states import CloseReason
from vivavoce.agents.telemetry.components import Components
from vivavoce.agents.telemetry.logs.log_export import log_export
from vivavoce.agents.telemetry.metrics.session_metrics import SessionMetrics
from vivavoce.agents.telemetry.observer import SessionObserver, StepOf, Watch
from vivavoce.agents.telemetry.texts import type_name
from vivavoce.agents.telemetry.tracing.spans import Attributes, Current, SpanMaker, SpanWatch
from vivavoce.agents.telemetry.tracing.turn_spans import TurnSpans
from vivavoce.agents.telemetry.tracing.watches import (
    EmbeddingsWatch,
    ModelWatch,
    PhaseWatch,
    StepWatch,
    ToolWatch,
    VoiceWatch,
)
from vivavoce.agents.turn import effects as fx
from vivavoce.agents.turn import inputs as i
from vivavoce.agents.turn_records.turn_record import UNKNOWN_TOOL
from vivavoce.pipelines.core.incidents import FellBack, on_dropped_frames
from vivavoce.pipelines.events import UserFinal
from vivavoce.pipelines.llm.base import GenerateRequest
from vivavoce.pipelines.llm.tools import ToolCall

if TYPE_CHECKING:
    from vivavoce.agents.telemetry.telemetry import TelemetryControl
    from vivavoce.agents.turn_records.parts import TurnParts
    from vivavoce.pipelines.core.clock import Clock

_ROOM_EVENTS: dict[type, str] = {
    i.ParticipantLinked: "participant_linked",
    i.ParticipantLeft: "participant_left",
    i.UserAudioStopped: "audio_stopped",
    i.TextReceived: "text_received",
}


EMBEDDINGS = "embeddings"
"""The name of the operation in the GenAI conventions."""

FAILURES = (CloseReason.ERROR.value, CloseReason.START_FAILED.value)
"""Reasons of a close for which the session's span has the status ERROR."""


class SessionTelemetry(SessionObserver):
    """The telemetry of one session.

    Args:
        is_own: Whether `telemetry` was made for this session, which then ends it.
        parts: (kind, provider, model) of each part of the pipeline.
        facts: Returns the attributes of the session's agent, pipeline and options.
    """

    is_on = True

    def __init__(
        self,
        telemetry: TelemetryControl,
        *,
        is_own: bool,
        session_id: str,
        clock: Clock,
        parts: Sequence[tuple[str, str, str]],
        facts: Callable[[], Mapping[str, Any]],
        capture_content: bool,
    ) -> None:
        self._telemetry = telemetry
        self._facts = facts
        self._is_own = is_own
        self._clock = clock
        self._capture = capture_content
        self._components = Components(parts)
        self._conversation: Attributes = {"gen_ai.conversation.id": session_id}
        """On the spans that the GenAI conventions know."""
        common = {**telemetry.options.attributes, "vivavoce.session.id": session_id}
        self._maker = SpanMaker(telemetry.tracer, clock, common, telemetry.options.redact, capture=capture_content)
        self._metrics = SessionMetrics(telemetry.meters, self._components, clock)
        self._turns = TurnSpans(self._maker, capture=self._capture)
        self._attempts: dict[str, tuple[str, SpanContext]] = {}
        """Turn and context of each attempt with which a turn may still go on."""
        self._phases: dict[StepOf, Span] = {}
        self._closing: Watch | None = None

    # --- the session's life

    def session(self) -> AbstractContextManager[object]:
        """Begin the session's span. It is current in the calling task and in all tasks that this one starts."""
        self._maker.begin()
        # All in the session's own task, as the ids of its logs are.
        log_export.set(self._telemetry.logs)
        on_dropped_frames.set(self._metrics.dropped_frames)
        span = self._maker.start("session", get_current(), attributes=self._session_attributes())
        self._turns.begin(span)
        context = span.get_span_context()
        if context.is_valid and context.trace_flags.sampled:
            self.trace_id = f"{context.trace_id:032x}"
        self._metrics.begin()
        self._hear_with()
        return Current(span)

    def fell_back(self, fell: FellBack) -> None:
        """Count the component that failed, and make an event of the session's span."""
        facts = {
            "vivavoce.component": fell.component,
            "gen_ai.provider.name": fell.provider,
            "gen_ai.request.model": fell.model or None,
            "vivavoce.fallback.successor": fell.successor or None,
            "error.type": type_name(type(fell.error)),
        }
        self._maker.event(self._turns.session, "fallback", facts)
        self._metrics.fallback(fell.component, fell.provider, fell.model, fell.error)

    def _session_attributes(self) -> Attributes:
        facts = {**self._conversation, **self._components.facts(), **self._facts()}
        if not self._capture:
            facts.pop("gen_ai.system_instructions", None)
        return facts

    def phase(self, which: StepOf) -> Watch:
        """Watch all of the start or of the close. Its span is not current: tasks that begin in it may outlive it."""
        span = self._phases[which] = self._maker.start(f"session_{which}", self._turns.session)
        watch = PhaseWatch(self._maker, span, lambda seconds: self._phase_over(which, seconds))
        if which == "close":
            self._closing = watch
        return watch

    def phase_step(self, which: StepOf, name: str) -> Watch:
        """Watch one step of it."""
        parent = self._phases.get(which, self._turns.session)
        span = self._maker.start("step", parent, name=name, attributes={"vivavoce.phase": which})
        return StepWatch(self._maker, span, lambda seconds: self._metrics.phase(which, name, seconds))

    def _phase_over(self, which: StepOf, seconds: float) -> None:
        self._metrics.phase(which, "all", seconds)
        if which == "start":  # by now the servers' tools are known
            self._maker.set(self._turns.session, self._session_attributes())

    def ends(self, reason: str, error: Exception | None = None) -> None:
        """End the session's span and the open spans in it, so that the flush sends them."""
        self._turns.close()
        if self._closing is not None:
            self._closing.__exit__(None, None, None)
        self._maker.close()
        self._metrics.end(reason)
        self._maker.set(self._turns.session, {"vivavoce.close.reason": reason})
        if error is not None:
            self._maker.fail(self._turns.session, error)
        elif reason in FAILURES:
            self._maker.mark_failed(self._turns.session, reason)
        self._maker.end(self._turns.session)

    async def flush(self) -> None:
        """Send all that was collected, within the options' limit; shared telemetry sends it soon, without a wait."""
        if self._is_own:
            await self._telemetry.aclose(clock=self._clock)
        else:
            self._telemetry.nudge()

    # --- the conversation

    def step(self, event: i.TurnInput, effects: Sequence[fx.Effect]) -> None:
        """Make the spans of room events; count heard audio."""
        name = _ROOM_EVENTS.get(type(event))
        if name is not None:
            span = self._maker.start("room", self._turns.session, name=f"room {name}")
            self._maker.end(span)
        elif isinstance(event, UserFinal) and event.audio_seconds:
            self._metrics.heard(event.audio_seconds)
        for effect in effects:
            if isinstance(effect, fx.DropAttempt):
                self._attempts.pop(effect.attempt_id, None)
            elif isinstance(effect, fx.CancelSpeech) and effect.is_withdrawn:
                self._metrics.speeches(-1)

    def noted(self, event: type[ev.SessionEvent], fields: Mapping[str, Any]) -> None:
        """Take errors and changes of the pipeline."""
        if event is ev.ErrorOccurred:
            self._metrics.error(fields)
        elif event is ev.PipelineChanged:
            self._pipeline_changed(fields["components"])

    def turn_opened(self, parts: TurnParts) -> None:
        """Take the user's turn that is open."""
        self._turns.opened(parts)

    def turn_committed(self, parts: TurnParts, speech_id: str) -> None:
        """Begin the span of the turn, if it has not begun."""
        self._turns.committed(parts, speech_id)
        self._metrics.speeches(1)

    def turn_dropped(self, parts: TurnParts, reason: DropReason) -> None:
        """End the span of a turn that will not be answered."""
        self._turns.dropped(parts, reason)

    def turn_ended(self, record: TurnRecord, parts: TurnParts) -> None:
        """End the span of a turn, `say` or `reply`, and measure it."""
        self._turns.ended(record, parts)
        for attempt_id in [one for one, (turn, _) in self._attempts.items() if turn == record.turn_id]:
            del self._attempts[attempt_id]  # no speech went on with it
        self._metrics.turn(record, parts)
        self._metrics.speeches(-1)

    def asked(self, speech_id: str, kind: str) -> None:
        """Begin the span of a `say` or a `reply`."""
        self._turns.asked(speech_id, kind, self._links_to(get_current_span()))
        self._metrics.speeches(1)

    def _pipeline_changed(self, components: Sequence[ComponentRecord]) -> None:
        """Name the new parts from now on; the session's span names the last ones."""
        self._components.change([(part.kind, part.provider, part.model) for part in components])
        self._metrics.pipeline_changed()
        self._hear_with()
        self._maker.set(self._turns.session, self._session_attributes())

    def _hear_with(self) -> None:
        stt = self._components.attributes("stt") if self._components.has("stt") else None
        self._turns.hear_with(stt=stt, detector=self._components.attributes("turn_detector"))

    # --- foreign code

    def speech(self, speech_id: str) -> Watch:
        """Make the span of the speech's turn, `say` or `reply` current."""
        return Current(self._turns.speech(speech_id))

    def model_step(self, component: str, number: int = 0, request: GenerateRequest | None = None) -> Watch:
        """Watch a step of a model, or text of the application's code."""
        if component != "llm":
            return SpanWatch(self._maker, self._maker.start("flow", get_current()))
        model = self._components.model("llm")
        attributes: Attributes = {
            **self._conversation,
            **self._components.attributes("llm"),
            "gen_ai.operation.name": "chat",
            "vivavoce.llm.step": number,
        }
        span = self._maker.start(
            "llm", get_current(), name=f"chat {model}".strip(), attributes=attributes, span_kind=SpanKind.CLIENT
        )
        return ModelWatch(self._maker, span, self._metrics, request, capture=self._capture)

    def embeddings(self, provider: str, model: str, dimensions: int) -> Watch:
        """Watch a request to an embedder."""
        of_model = {"gen_ai.provider.name": provider, "gen_ai.request.model": model}
        facts: dict[str, str] = {
            **{key: name for key, name in of_model.items() if name},
            "gen_ai.operation.name": EMBEDDINGS,
        }
        attributes: Attributes = {**self._conversation, **facts, "gen_ai.embeddings.dimension.count": dimensions}
        span = self._maker.start(
            EMBEDDINGS,
            get_current(),
            name=f"{EMBEDDINGS} {model}".strip(),
            attributes=attributes,
            span_kind=SpanKind.CLIENT,
        )
        return EmbeddingsWatch(self._maker, span, self._metrics, facts)

    def attempt(self, attempt_id: str, turn_id: str) -> Watch:
        """Watch an answer that is begun before its turn is over, in the span of that turn."""
        parent = self._turns.turn(turn_id) or self._turns.session
        span = self._maker.start("attempt", parent, attributes={"vivavoce.attempt.id": attempt_id})
        self._attempts[attempt_id] = turn_id, span.get_span_context()
        return SpanWatch(self._maker, span)

    def attempt_taken(self, attempt_id: str, speech_id: str) -> None:
        """Link the turn to the attempt with which it goes on."""
        _, context = self._attempts.pop(attempt_id, ("", None))
        if context is not None:
            self._turns.speech(speech_id).add_link(context, {"vivavoce.link": "attempt"})

    def voice(self) -> Watch:
        """Watch a synthesis."""
        attributes = {**self._conversation, **self._components.attributes("tts"), "gen_ai.output.type": "speech"}
        span = self._maker.start("tts", get_current(), attributes=attributes, span_kind=SpanKind.CLIENT)
        return VoiceWatch(self._maker, span, self._metrics)

    def tool(self, call: ToolCall, *, is_known: bool = True) -> Watch:
        """Watch a tool call. A name that no tool has is content, and would make a series of metrics for each."""
        name = call.name if is_known else UNKNOWN_TOOL
        attributes: Attributes = {
            **self._conversation,
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": call.name if self._capture else name,
            "gen_ai.tool.call.id": call.call_id,
            "gen_ai.tool.call.arguments": call.arguments if self._capture else None,
        }
        span = self._maker.start("tool", get_current(), name=f"execute_tool {name}", attributes=attributes)
        return ToolWatch(self._maker, span, self._metrics, name, capture=self._capture)

    def hook(self, name: str, **attributes: str | int) -> Watch:
        """Watch a callback of the application, or a handoff; linked to the turn of `turn_id`, if it names one."""
        turn = self._turns.open_or_last(str(attributes.pop("turn_id", "")))
        kind = name if name in ("handoff", "pipeline_change", "wake_up") else "hook"
        named = {f"vivavoce.{kind}.{key}": value for key, value in attributes.items()}
        links = [] if turn is None else self._links_to(turn)
        return SpanWatch(self._maker, self._maker.start(kind, get_current(), name=name, attributes=named, links=links))

    # --- inside

    def _links_to(self, span: Span) -> list[SpanContext]:
        context = span.get_span_context()
        is_ours = context.span_id == self._turns.session.get_span_context().span_id
        return [] if not context.is_valid or is_ours else [context]
