"""Replay: reads a trace and feeds its inputs to a fresh machine, which must return the same effects."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from vivavoce.agents.turn.machine import TurnMachine
from vivavoce.agents.turn.trace.codec import Codec, Plain, opaque_parts
from vivavoce.agents.turn.trace.record import FORMAT, OLDEST_FORMAT, TURN
from vivavoce.pipelines.core.errors import TraceError


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedStep:
    """One line of a trace, as plain data.

    Args:
        line: Its number in the file, from 1.
        at: Session clock, seconds.
        effects: None when the machine raised.
        deadline: The time at which the machine then needed a tick.
        machine: "turn", or "graph": that of a conversation graph.
    """

    line: int
    at: float
    event: dict[str, Plain]
    effects: list[dict[str, Plain]] | None
    deadline: float | None
    machine: str = "turn"


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """A trace that was read, up to its first damaged line.

    Args:
        version: Of the vivavoce that wrote it.
        format: The format of the lines; an older one than `FORMAT` can be shown and not replayed.
        rules: The fingerprint of the rules of the machines that wrote it; empty if unknown.
        began_at: Wall time, seconds since the Unix epoch.
        not_replayable: The options, and parts of inputs, that are only named in it: code of an application that
            decides, such as its own policy.
        steps: Of the turn machine.
        graph: The steps of the conversation graph's machine, for `agents/graphs/trace.py`; () without a graph.
        end: "closed", or the reason why the trace ends; "" without one: the session or its process was still running,
            or was killed.
        cut_line: The number of a last line that was written only in part; 0 without one.
        damaged_line: The number of the first line in the middle that is not a line of a trace; 0 without one. Later
            lines were not read.
    """

    session_id: str
    version: str
    format: int
    began_at: float
    options: Plain
    not_replayable: tuple[str, ...]
    steps: tuple[RecordedStep, ...]
    end: str
    cut_line: int
    damaged_line: int
    rules: str
    graph: tuple[RecordedStep, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """The first point at which a replay differs.

    Args:
        what: "effects" or "deadline".
        recorded, replayed: Plain data; an effects list of None means that the machine raised.
        error: The error that the machine raised in the replay.
    """

    step: RecordedStep
    what: str
    recorded: Any
    replayed: Any
    error: str = ""


def read_trace(lines: Iterable[str]) -> Trace:
    """Read a trace from its lines.

    Raises:
        TraceError: It is not a trace, or is of another format.
    """
    texts = [(number, line) for number, line in enumerate(lines, start=1) if line.strip()]
    header = _parsed(texts[0][1]) if texts else None
    if header is None or header.get("trace") != "vivavoce":
        raise TraceError("this is no trace: needed a file that a session wrote for VIVAVOCE_TRACE or trace_path")
    version = str(header.get("version", ""))
    written = header.get("format")
    if not isinstance(written, int) or not OLDEST_FORMAT <= written <= FORMAT:
        raise TraceError(
            f"needed a trace of format {OLDEST_FORMAT} to {FORMAT}, got {written!r}; "
            f"replay it with the vivavoce that wrote it, {_writer(version)}"
        )
    steps: dict[str, list[RecordedStep]] = {"turn": [], "graph": []}
    end, cut, damaged = "", 0, 0
    for number, text in texts[1:]:
        plain = _parsed(text)
        if plain is not None and "end" in plain:
            end = str(plain["end"])
        elif plain is not None and (step := _step(plain, number)) is not None:
            steps[step.machine].append(step)
        elif number == texts[-1][0]:
            cut = number
        else:
            damaged = number
            break
    return Trace(
        session_id=str(header.get("session", "")),
        version=version,
        format=written,
        began_at=float(header.get("began_at", 0.0)),
        options=header.get("options"),
        rules=str(header.get("rules", "")),
        not_replayable=(
            *(str(part) for part in header.get("not_replayable", ())),
            *(part for step in steps["turn"] for part in opaque_parts(step.event, f"line {step.line}: input")),
        ),
        steps=tuple(steps["turn"]),
        graph=tuple(steps["graph"]),
        end=end,
        cut_line=cut,
        damaged_line=damaged,
    )


def replay(trace: Trace) -> Difference | None:
    """Feed the inputs to a fresh turn machine; return the first step with another result, or None.

    Raises:
        TraceError: The trace cannot be replayed: it is of an older format, or its options or an input are only named
            in it, or are of another version of vivavoce. A trace of other rules is replayed: to see whether a bug that
            it shows is mended.
    """
    check_format(trace)
    if trace.not_replayable:
        raise TraceError(f"the trace cannot be replayed; it only names {'; '.join(trace.not_replayable)}")
    return replay_steps(TurnMachine(TURN.decode(trace.options)), trace.steps, TURN)


def check_format(trace: Trace) -> None:
    """Refuse a replay of an older trace.

    Raises:
        TraceError: The trace is of an older format.
    """
    if trace.format != FORMAT:
        raise TraceError(
            f"the trace can be shown and not replayed: needed format {FORMAT}, got {trace.format}, of which inputs and "
            f"rules have changed since; replay it with the vivavoce that wrote it, {_writer(trace.version)}"
        )


class Machine(Protocol):
    """A machine that can be replayed, such as the turn machine."""

    def handle(self, event: Any, *, now: float) -> Sequence[object]:
        """Take one input and return the effects."""

    def next_deadline(self) -> float | None:
        """Return when the machine needs a tick."""


def replay_steps(machine: Machine, steps: Iterable[RecordedStep], codec: Codec) -> Difference | None:
    """Feed the inputs to that machine; return the first step with another result, or None.

    Raises:
        TraceError: An input is only named in the trace, or is of another version of vivavoce.
    """
    for step in steps:
        event = decoded(step, codec)
        try:
            effects = codec.encode(tuple(machine.handle(event, now=step.at)))
        except Exception as error:  # noqa: BLE001 - a replay is made to find bugs of the machine
            if step.effects is None:
                continue
            return Difference(
                step=step,
                what="effects",
                recorded=step.effects,
                replayed=None,
                error=f"{type(error).__name__}: {error}",
            )
        if effects != step.effects:
            return Difference(step=step, what="effects", recorded=step.effects, replayed=effects)
        if machine.next_deadline() != step.deadline:
            return Difference(step=step, what="deadline", recorded=step.deadline, replayed=machine.next_deadline())
    return None


def decoded(step: RecordedStep, codec: Codec) -> Any:
    """Return the input of a step.

    Raises:
        TraceError: It is only named in the trace, or is of another version of vivavoce.
    """
    try:
        return codec.decode(step.event)
    except TraceError as error:
        raise TraceError(f"line {step.line} cannot be replayed: {error}") from error


def _writer(version: str) -> str:
    return version or "of unknown version"


def _parsed(line: str) -> dict[str, Any] | None:
    try:
        plain = json.loads(line)
    except ValueError:
        return None
    return plain if isinstance(plain, dict) else None


def _step(plain: dict[str, Any], line: int) -> RecordedStep | None:
    match plain:
        case {
            "at": int() | float() as at,
            "input": {"is": str()} as event,
            "effects": None | list() as effects,
            "deadline": None | int() | float() as deadline,
        } if (machine := plain.get("machine", "turn")) in ("turn", "graph") and (
            effects is None or all(isinstance(effect, dict) for effect in effects)
        ):
            return RecordedStep(line=line, at=at, event=event, effects=effects, deadline=deadline, machine=machine)
    return None
