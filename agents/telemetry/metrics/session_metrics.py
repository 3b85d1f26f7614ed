"""SessionMetrics: measures one session, with the provider and the model of the part that is measured."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from vivavoce.agents.telemetry.metrics.meters import Meters
from vivavoce.agents.telemetry.texts import type_name
from vivavoce.pipelines.llm.base import Usage

if TYPE_CHECKING:
    from vivavoce.agents.records import TurnRecord
    from vivavoce.agents.telemetry.components import Components
    from vivavoce.agents.telemetry.observer import StepOf
    from vivavoce.agents.turn_records.parts import TurnParts
    from vivavoce.pipelines.core.clock import Clock

STAGES = {
    "vad_silence": "vad",
    "transcript_wait": "stt",
    "end_of_turn_decision": "turn_detector",
    "endpointing_wait": "turn_detector",
    "model_first_token": "llm",
    "first_sentence": "llm",
    "tts_first_byte": "tts",
}
"""The part whose provider and model a stage carries; all other stages carry the model's."""


class SessionMetrics:
    """Measures one session."""

    def __init__(self, meters: Meters, components: Components, clock: Clock) -> None:
        self._meters = meters
        self._components = components
        self._clock = clock
        self._model = components.attributes("llm")
        self._began_at = 0.0
        self._is_on = False
        self._open_speeches = 0

    def begin(self) -> None:
        """The session starts."""
        self._began_at, self._is_on = self._clock.now(), True
        self._meters.active(1, self._model)
        self._meters.watch_loop(self._clock)

    def pipeline_changed(self) -> None:
        """Count the session and its open speeches for another model from now on."""
        open_speeches = self._open_speeches
        self.speeches(-open_speeches)
        if self._is_on:
            self._meters.active(-1, self._model)
        self._model = self._components.attributes("llm")
        if self._is_on:
            self._meters.active(1, self._model)
        self.speeches(open_speeches)

    def end(self, reason: str) -> None:
        """The session is over, except for the flush."""
        if not self._is_on:
            return
        self._is_on = False
        attributes = {**self._model, "vivavoce.close.reason": reason}
        self._meters.active(-1, self._model)
        self.speeches(-self._open_speeches)
        self._meters.closed(1, attributes)
        self._meters.session(self._clock.now() - self._began_at, attributes)
        self._meters.unwatch_loop()

    def phase(self, which: StepOf, step: str, seconds: float) -> None:
        """A step of start or close is over; "all": all steps together."""
        attributes = {**self._model, "vivavoce.phase": which, "vivavoce.step": step}
        self._meters.phase(seconds, attributes)

    def speeches(self, change: int) -> None:
        """The number of open speeches has changed by `change`."""
        self._open_speeches += change
        self._meters.speeches(change, self._model)

    def turn(self, record: TurnRecord, parts: TurnParts) -> None:
        """A turn has its outcome."""
        meters = self._meters
        outcome = {"vivavoce.turn.kind": record.kind, "vivavoce.turn.outcome": record.outcome}
        meters.turns(1, {**self._model, **outcome})
        if record.e2e_latency is not None:
            meters.e2e_latency(record.e2e_latency, self._model)
        for stage in record.stages:
            is_judged = stage.name == "end_of_turn_decision" and record.ended_by == "recogniser"
            part = "stt" if is_judged else STAGES.get(stage.name, "llm")
            attributes = self._components.attributes(part) or self._model
            of_stage = {"vivavoce.stage": stage.name, "vivavoce.stage.owner": stage.owner}
            meters.stage(stage.seconds, {**attributes, **of_stage})
        for cut in parts.interruptions:
            if cut.is_audible:
                is_false = cut.outcome != "interrupted"
                meters.interruptions(1, {**self._model, "vivavoce.interruption.is_false": is_false})
                meters.interruption(cut.latency, self._model)

    def error(self, fields: Mapping[str, Any]) -> None:
        """An `error` event."""
        component = str(fields["source"])
        of_error: dict[str, str | bool] = {
            "vivavoce.component": component,
            "error.type": type_name(type(fields["error"])),
            "vivavoce.is_recovered": bool(fields.get("is_recovered", False)),
        }
        self._meters.errors(1, {**self._components.attributes(component), **of_error})

    def model_step(
        self, seconds: float, first_chunk: float | None, usage: Usage | None, error: BaseException | None
    ) -> None:
        """A model's step is over."""
        attributes = {**self._model, "gen_ai.operation.name": "chat"}
        if first_chunk is not None:
            self._meters.first_chunk(first_chunk, attributes)
        failed = {} if error is None else {"error.type": type_name(type(error))}
        self._meters.operation(seconds, {**attributes, **failed})
        if usage is not None:
            for kind, tokens in (("input", usage.input_tokens), ("output", usage.output_tokens)):
                self._meters.tokens(tokens, {**attributes, "gen_ai.token.type": kind})

    def embeddings(
        self, facts: Mapping[str, str], seconds: float, tokens: int | None, error: BaseException | None
    ) -> None:
        """A request to an embedder is over."""
        failed = {} if error is None else {"error.type": type_name(type(error))}
        self._meters.operation(seconds, {**facts, **failed})
        if tokens is not None:
            self._meters.tokens(tokens, {**facts, "gen_ai.token.type": "input"})

    def voice(self, first_byte: float | None, characters: int, seconds: float) -> None:
        """A synthesis is over."""
        attributes = self._components.attributes("tts")
        if first_byte is not None:
            self._meters.first_byte(first_byte, attributes)
        self._meters.characters(characters, {**attributes, "vivavoce.component": "tts"})
        self._meters.speech(seconds, {**attributes, "vivavoce.component": "tts"})

    def heard(self, seconds: float) -> None:
        """A recogniser has heard so many seconds."""
        attributes = {**self._components.attributes("stt"), "vivavoce.component": "stt"}
        self._meters.speech(seconds, attributes)

    def tool(self, name: str, seconds: float, error: str) -> None:
        """A tool call is settled; `error` is the type of its failure, empty without one."""
        attributes = {**self._model, "gen_ai.tool.name": name, **({"error.type": error} if error else {})}
        self._meters.tool_duration(seconds, attributes)
        self._meters.tool_calls(1, attributes)

    def fallback(self, component: str, provider: str, model: str, error: Exception) -> None:
        """A fallback took the place of that component."""
        names = {"gen_ai.provider.name": provider, "gen_ai.request.model": model}
        attributes = {name: value for name, value in names.items() if value}
        kind = type_name(type(error))
        self._meters.fallbacks(1, {**attributes, "vivavoce.component": component, "error.type": kind})

    def dropped_frames(self, component: str, frames: int) -> None:
        """Audio was lost on its way to that component."""
        attributes = self._components.attributes(component) if component == "stt" else self._model
        self._meters.dropped(frames, {**attributes, "vivavoce.component": component})
