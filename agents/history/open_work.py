"""OpenWork: the work of a conversation that is written ahead: the turn without an answer, and the calls that have
begun.

A session writes it with its snapshot before the answer is heard and before a tool runs. A session that resumes it
answers the turn, and treats the calls as `vivavoce.agents.tools.calls` says.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from vivavoce.pipelines.core.errors import ConfigurationError
from vivavoce.pipelines.llm.tools import ToolCall, ToolOutput

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class BegunCall:
    """A tool call that is not in the history yet.

    Args:
        turn_id: The turn, or the speech, that made it.
        output: Its output, or None if the call has not ended.
    """

    turn_id: str
    call: ToolCall
    output: ToolOutput | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PassedCode:
    """The code that a turn has passed on its way to the answer. It does not run again for the same words.

    Args:
        instructions: What `on_user_turn_completed` has left for the answer; None if it has not run.
        taken_by: The keys of the extensions whose states have the effect of the turn.
    """

    instructions: str | None = field(default=None, repr=False)
    taken_by: tuple[str, ...] = ()


NOTHING_PASSED = PassedCode()


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenWork:
    """The open work of a session.

    Args:
        turn_id: The newest turn of the user whose answer is not over; "" for none.
        passed: The code that this turn has passed.
        calls: In the order in which they began.
        results: The other turns or speeches with calls whose results are in the history and in no answer yet.
    """

    turn_id: str = ""
    passed: PassedCode = NOTHING_PASSED
    calls: tuple[BegunCall, ...] = ()
    results: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any] | None:
        """Return the data that `read()` takes, or None if nothing is open."""
        if not (self.turn_id or self.calls or self.results):
            return None
        calls = [
            {
                "turn_id": begun.turn_id,
                **asdict(begun.call),
                "output": None if begun.output is None else begun.output.output,
                "is_error": begun.output is not None and begun.output.is_error,
            }
            for begun in self.calls
        ]
        return {
            "turn_id": self.turn_id,
            "passed": {"instructions": self.passed.instructions, "taken_by": list(self.passed.taken_by)},
            "calls": calls,
            "results": list(self.results),
        }

    @classmethod
    def read(cls, data: object) -> OpenWork:
        """Return the open work of a snapshot; `data` is its entry, or None.

        Raises:
            ConfigurationError: The data has another shape.
        """
        if data is None:
            return NO_OPEN_WORK
        if isinstance(data, Mapping):
            try:
                return cls(
                    turn_id=_text(data["turn_id"]),
                    passed=_passed(data.get("passed", {})),
                    calls=tuple(_begun(call) for call in data["calls"]),
                    results=tuple(_text(made_by) for made_by in data.get("results", ())),
                )
            except (AttributeError, KeyError, TypeError) as error:
                logger.debug("The open work of a snapshot has another shape", exc_info=error)
        raise ConfigurationError("a snapshot needs 'open' as snapshot() returned it, with a 'turn_id' and 'calls'")


NO_OPEN_WORK = OpenWork()


def _passed(data: Mapping[str, Any]) -> PassedCode:
    instructions = data.get("instructions")
    taken_by = ["graph"] if data.get("is_judged") else data.get("taken_by", ())  # before there were other extensions
    return PassedCode(
        instructions=None if instructions is None else _text(instructions), taken_by=tuple(map(_text, taken_by))
    )


def _begun(data: Mapping[str, Any]) -> BegunCall:
    call = ToolCall(
        call_id=_text(data["call_id"]),
        name=_text(data["name"]),
        arguments=_text(data["arguments"]),
        extra=_text(data.get("extra", "")),
    )
    output = None
    if data["output"] is not None:
        output = ToolOutput(
            call_id=call.call_id, name=call.name, output=_text(data["output"]), is_error=bool(data["is_error"])
        )
    return BegunCall(turn_id=_text(data["turn_id"]), call=call, output=output)


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError("a text is needed")
    return value
