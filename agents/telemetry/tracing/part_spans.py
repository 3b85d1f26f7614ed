"""part_spans: the spans of a turn's parts without foreign code: a pure function of the finished turn.

| span | from | to |
|---|---|---|
| user_speech | the true start of the user's speech | its true end |
| stt | the start of the speech, without a VAD the first interim | the final transcript, else the turn's end |
| end_of_turn | the true end of the speech | the commit, or further speech |
| playout | the first frame played of a step | the last one, or the end of a speech that was cut |
| interruption | the true start of the speech over the agent | the decision |
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vivavoce.agents.telemetry.tracing.spans import Attributes
    from vivavoce.agents.turn_records.parts import Part, TurnParts


@dataclass(frozen=True, slots=True)
class PartSpan:
    """A span that is over. Times are the session clock's, in seconds; None: now."""

    kind: str
    began_at: float
    ended_at: float | None
    attributes: Attributes


@dataclass(frozen=True, slots=True)
class Listening:
    """The pipeline's parts that hear the user, from `since` (session clock) on.

    Args:
        stt: Attributes of the recogniser; None where the pipeline has none.
        detector: Attributes of the turn detector.
    """

    since: float
    stt: Attributes | None
    detector: Attributes


def part_spans(parts: TurnParts, listening: list[Listening], *, capture: bool) -> Iterator[PartSpan]:
    """Yield the spans of a turn's parts.

    Args:
        listening: The parts that have heard the session's user, the present ones last; at least one.
        capture: Whether texts may be sent.
    """
    for speech in parts.speech:
        yield PartSpan("user_speech", speech.began_at, speech.ended_at, {})
    for heard in parts.recognitions:
        stt = _listening(listening, heard).stt
        if stt is None:
            continue
        attributes: Attributes = {
            **stt,
            "vivavoce.stt.audio_seconds": heard.audio_seconds or None,
            "vivavoce.stt.text": heard.text if capture and heard.has_final else None,
            "vivavoce.stt.interims": heard.interims,
            "vivavoce.stt.has_final": heard.has_final,
            "vivavoce.stt.speakers": heard.speakers or None,
            "vivavoce.stt.languages": heard.languages or None,
            "vivavoce.stt.confidence": heard.confidence,
        }
        yield PartSpan("stt", heard.began_at, heard.ended_at, attributes)
    for pause in parts.pauses:
        attributes = {
            **_listening(listening, pause).detector,
            "vivavoce.end_of_turn.complete": pause.is_complete,
            "vivavoce.end_of_turn.probability": pause.probability,
            "vivavoce.end_of_turn.decision": pause.decision or None,
            "vivavoce.end_of_turn.ended_by": pause.ended_by,
            "vivavoce.end_of_turn.delay": pause.delay,
        }
        yield PartSpan("end_of_turn", pause.began_at, pause.ended_at, attributes)
    for step in parts.playouts:
        yield PartSpan("playout", step.began_at, step.ended_at, {"vivavoce.playout.is_cut": step.is_cut})
    for cut in parts.interruptions:
        attributes = {
            "vivavoce.interruption.outcome": cut.outcome,
            "vivavoce.interruption.is_false": cut.outcome == "resumed",
            "vivavoce.interruption.is_audible": cut.is_audible,
            "vivavoce.interruption.by": cut.by,
            "vivavoce.interruption.latency": cut.latency,
        }
        yield PartSpan("interruption", cut.began_at, cut.ended_at, attributes)


def _listening(listening: list[Listening], part: Part) -> Listening:
    return next((each for each in reversed(listening) if each.since <= part.began_at), listening[0])
