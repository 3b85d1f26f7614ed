"""TurnSpans: the spans of turns, `say`s and `reply`s, in which the spans of models, voices and tools are.

A turn's span is made in the user's first pause, when there is time, or when it is needed before: for an answer begun
ahead, at the commit or at the drop. Its start is the true onset of the user's speech. The VAD may report it after the
recogniser's first words, and a span cannot be dated back.
The spans of a turn's parts are made when the turn is over (`part_spans`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from vivavoce.agents.telemetry.tracing.part_spans import Listening, part_spans
from vivavoce.agents.telemetry.tracing.spans import NO_SPAN, Attributes, SpanMaker

if TYPE_CHECKING:
    from opentelemetry.trace import Span, SpanContext

    from vivavoce.agents.records import TurnRecord
    from vivavoce.agents.telemetry.options import AttributeValue
    from vivavoce.agents.turn_records.parts import TurnParts


class TurnSpans:
    """Keeps the spans that are open.

    Args:
        capture: Whether texts may be sent.
    """

    def __init__(self, maker: SpanMaker, *, capture: bool) -> None:
        self.session: Span = NO_SPAN
        """The parent of all."""
        self._maker = maker
        self._listening: list[Listening] = []
        self._capture = capture
        self._open: dict[str, TurnParts] = {}
        """The user's turns that are not over."""
        self._turns: dict[str, Span] = {}
        self._speeches: dict[str, Span] = {}
        self._last: tuple[str, Span] = "", NO_SPAN
        """The turn, or the speech, that ended last, and its span."""

    # --- for the session's telemetry

    def begin(self, session: Span) -> None:
        """Put the later spans below that of the session."""
        self.session = session

    def hear_with(self, *, stt: Attributes | None, detector: Attributes) -> None:
        """These parts of the pipeline hear the user from now on; `stt` is None where no part recognises words."""
        self._listening.append(Listening(self._maker.now(), stt, detector))

    def speech(self, speech_id: str) -> Span:
        """Return the span of the turn, `say` or `reply` that this speech is, else the session's."""
        return self._speeches.get(speech_id, self.session)

    def turn(self, turn_id: str) -> Span | None:
        """Return the open span of that turn, or of the speech of that id."""
        parts = self._open.get(turn_id)
        return self._speeches.get(turn_id) if parts is None else self._begin(parts)

    def open_or_last(self, turn_id: str) -> Span | None:
        """As `turn()`, and of the turn that ended last: its span, which has ended too."""
        return self._last[1] if turn_id and turn_id == self._last[0] else self.turn(turn_id)

    def asked(self, speech_id: str, kind: str, links: Sequence[SpanContext]) -> None:
        """`say()` or `reply()` was called."""
        attributes = {"vivavoce.speech.id": speech_id}
        self._speeches[speech_id] = self._maker.start(kind, self.session, attributes=attributes, links=links)

    def opened(self, parts: TurnParts) -> None:
        """The user's turn is open."""
        self._open[parts.turn_id] = parts
        if parts.pauses:  # its onset is known, and no answer waits for the span yet
            self._begin(parts)

    def committed(self, parts: TurnParts, speech_id: str) -> None:
        """That speech answers the turn."""
        self._open[parts.turn_id] = parts
        self._speeches[speech_id] = self._begin(parts)

    def ended(self, record: TurnRecord, parts: TurnParts) -> None:
        """A turn, a `say` or a `reply` has its outcome."""
        self._open.pop(record.turn_id, None)
        span = self._turns.pop(record.turn_id, None) or self._speeches.get(record.turn_id)
        if span is None:
            return
        self._last = record.turn_id, span
        self._speeches = {speech_id: other for speech_id, other in self._speeches.items() if other is not span}
        attributes: dict[str, AttributeValue | None] = {
            "vivavoce.turn.outcome": record.outcome,
            "vivavoce.turn.interrupted": record.interrupted,
            "vivavoce.turn.e2e_latency": record.e2e_latency,
            "vivavoce.turn.preemptive": record.preemptive,
            "vivavoce.turn.is_empty": record.is_empty,
            "vivavoce.turn.unvoiced": len(record.unvoiced) or None,
            "vivavoce.turn.ended_by": record.ended_by,
            "vivavoce.turn.tools": len(record.tools),
            "vivavoce.turn.graph_state": record.graph_state or None,
            **{f"vivavoce.stage.{stage.name}": stage.seconds for stage in record.stages},
        }
        if self._capture:
            attributes["vivavoce.turn.user_text"] = record.user_text
            attributes["vivavoce.turn.agent_text"] = record.agent_text
            attributes["vivavoce.turn.heard_text"] = record.heard_text
        self._maker.set(span, attributes)
        if record.outcome == "failed":
            self._maker.set_failed(span, record.error)
        self._end(span, parts)

    def dropped(self, parts: TurnParts, reason: str) -> None:
        """The user's turn will not be answered."""
        span = self._begin(parts)
        self._open.pop(parts.turn_id, None)
        self._turns.pop(parts.turn_id, None)
        self._maker.set(span, {"vivavoce.turn.outcome": "dropped", "vivavoce.turn.reason": reason})
        self._end(span, parts)

    def close(self) -> None:
        """The session ends: end all open spans."""
        for parts in list(self._open.values()):
            self.dropped(parts, "closed")
        for span in self._speeches.values():
            self._maker.end(span)  # those of turns have ended, so nothing changes
        self._speeches.clear()

    # --- inside

    def _begin(self, parts: TurnParts) -> Span:
        """Return the turn's span, begun now at the latest."""
        span = self._turns.get(parts.turn_id)
        if span is None:
            attributes = {"vivavoce.turn.id": parts.turn_id}
            span = self._maker.start("turn", self.session, at=parts.began_at, attributes=attributes)
            self._turns[parts.turn_id] = span
        return span

    def _end(self, span: Span, parts: TurnParts) -> None:
        """Make the spans of its parts, and end it."""
        for at, is_merged in parts.commits:
            self._maker.event(span, "committed", {"vivavoce.turn.merged": is_merged}, at=at)
        for part in part_spans(parts, self._listening, capture=self._capture):
            self._maker.make(part.kind, span, part.began_at, part.ended_at, part.attributes)
        self._maker.end(span)
