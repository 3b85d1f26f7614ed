"""Trace: the steps of a session's machines as JSON lines.

A trace is one line for the beginning, one for each input, one for the end:

    {"trace": "vivavoce", "format": 3, "version": "0.1.0", "rules": "1f0e2d3c4b5a", "session": "session_1",
     "began_at": 1767225600.0, "options": {"is": "TurnOptions", ...}, "not_replayable": []}
    {"at": 4.5, "input": {"is": "SessionStarting"}, "effects": [{"is": "SetAgentState", ...}], "deadline": null}
    {"end": "closed"}

The inputs are those of the turn machine. A session that follows a conversation graph has the steps of the graph's
machine in the same file (`agents/graphs/trace.py`): `{"machine": "graph", "at": 4.6, "input": ...}`.

Times are the session clock's, exact to the bit. The user's words are in it: they are inputs of the turn machine.
`rules` shows a reader whether the machines that wrote it had other code (`agents.traces.trace_rules`).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from vivavoce.agents.turn.effects import Effect
from vivavoce.agents.turn.inputs import TurnInput
from vivavoce.agents.turn.machine import TurnMachine
from vivavoce.agents.turn.options import TurnOptions
from vivavoce.agents.turn.trace.codec import Codec, Plain, opaque_parts

FORMAT = 3
"""The format of the lines. It changes when inputs or effects change, or all of the rules. It stays when an input is
added, which old traces lack, and when a single rule changes, which `rules` shows."""
OLDEST_FORMAT = 1
"""The oldest format that can still be read and shown. Only `FORMAT` can be replayed, since the rules have changed."""

TURN = Codec("turn", (TurnInput, Effect, TurnOptions))


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceStep:
    """One input with its effects.

    Args:
        now: Session clock, seconds.
        effects: None if the machine raised.
        deadline: The machine's next deadline.
        codec: Of the machine.
    """

    now: float
    event: Any
    effects: tuple[object, ...] | None
    deadline: float | None
    codec: Codec = TURN


class RecordedMachine(TurnMachine):
    """A turn machine that reports each step. A machine without a trace has no cost for it.

    Args:
        record: Called with each step, also with one in which the machine raised.
    """

    def __init__(self, options: TurnOptions, record: Callable[[TraceStep], None]) -> None:
        super().__init__(options)
        self._record = record

    def handle(self, event: TurnInput, *, now: float) -> list[Effect]:
        """Take one input and return the effects to carry out, in order."""
        try:
            effects = super().handle(event, now=now)
        except BaseException:
            self._record(TraceStep(now=now, event=event, effects=None, deadline=None))
            raise
        self._record(TraceStep(now=now, event=event, effects=tuple(effects), deadline=self.next_deadline()))
        return effects


# --- lines


def header_line(options: TurnOptions, *, session_id: str, version: str, began_at: float, rules: str = "") -> str:
    """Return the first line of a trace.

    Args:
        version: Of vivavoce.
        rules: The fingerprint of the machine's rules.
        began_at: Wall time, seconds since the Unix epoch.
    """
    plain = TURN.encode(options)
    return _line(
        {
            "trace": "vivavoce",
            "format": FORMAT,
            "version": version,
            "rules": rules,
            "session": session_id,
            "began_at": began_at,
            "options": plain,
            "not_replayable": list(opaque_parts(plain, "options")),
        }
    )


def step_line(step: TraceStep) -> str:
    """Return the line of a step."""
    codec = step.codec
    machine: dict[str, Plain] = {} if codec is TURN else {"machine": codec.machine}
    effects = None if step.effects is None else codec.encode(step.effects)
    return _line(
        {**machine, "at": step.now, "input": codec.encode(step.event), "effects": effects, "deadline": step.deadline}
    )


def end_line(why: str) -> str:
    """Return the last line of a trace: "closed", or the reason why the trace ends."""
    return _line({"end": why})


def _line(plain: Plain) -> str:
    return json.dumps(plain, ensure_ascii=False, allow_nan=False, separators=(",", ":")) + "\n"
