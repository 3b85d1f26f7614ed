"""JSON lines: what a program writes to `vivavoce console --text --json`, and what it reads, an object a line."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Annotated, Any, Literal, TextIO, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from vivavoce.agents.states import AgentState, CloseReason, UserState
from vivavoce.pipelines.core.errors import ConfigurationError

if TYPE_CHECKING:
    from vivavoce.agents.records import TurnRecord

logger = logging.getLogger(__name__)


class _Line(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class UserLine(_Line):
    """In: the caller says this, once what came before is answered. Out: these words are in the history."""

    type: Literal["user"] = "user"
    text: Annotated[str, Field(pattern=r"\S")]


class InterruptLine(_Line):
    """In: the agent stops at once."""

    type: Literal["interrupt"]


class AgentLine(_Line):
    """Out: the agent has said this; `interrupted`: it was cut, and `text` is the part that was said."""

    type: Literal["agent"] = "agent"
    text: str
    interrupted: bool


class ToolLine(_Line):
    """Out: a tool was called; `arguments` are the JSON that the model has written."""

    type: Literal["tool"] = "tool"
    name: str
    arguments: str
    output: str
    is_error: bool


class StateLine(_Line):
    """Out: the agent is now in this state."""

    type: Literal["state"] = "state"
    agent: AgentState


class TurnLine(_Line):
    """Out: a turn is over; `latency`: seconds from the caller's words to the agent's first one, if it answered."""

    type: Literal["turn"] = "turn"
    turn_id: str
    kind: Literal["turn", "say", "reply"]
    outcome: str
    latency: float | None
    error: str


class PartLine(_Line):
    """Out: a part of a rich reply, as text."""

    type: Literal["part"] = "part"
    text: str


class NoteLine(_Line):
    """Out: a note for the developer."""

    type: Literal["note"] = "note"
    text: str


class ErrorLine(_Line):
    """Out: a line was refused, a part of the agent has failed, or the conversation cannot be."""

    type: Literal["error"] = "error"
    message: str


class ReadyLine(_Line):
    """Out: everything is answered; the agent waits for the next line."""

    type: Literal["ready"] = "ready"


class EndedLine(_Line):
    """Out: the conversation is over; the last line."""

    type: Literal["ended"] = "ended"
    reason: str


InLine: TypeAlias = Annotated[UserLine | InterruptLine, Field(discriminator="type")]
OutLine: TypeAlias = Annotated[
    UserLine | AgentLine | ToolLine | StateLine | TurnLine | PartLine | NoteLine | ErrorLine | ReadyLine | EndedLine,
    Field(discriminator="type"),
]

_USER, _INTERRUPT = '{"type": "user", "text": "…"}', '{"type": "interrupt"}'
_IN: TypeAdapter[UserLine | InterruptLine] = TypeAdapter(InLine)
_OUT: TypeAdapter[Any] = TypeAdapter(OutLine)


def schema() -> dict[str, Any]:
    """Return the JSON schemas of a line of the input (`in`) and of a line of the output (`out`)."""
    return {"in": _IN.json_schema(), "out": _OUT.json_schema()}


class JsonReader:
    """Reads the lines of the input, and counts them."""

    def __init__(self) -> None:
        self._count = 0

    def read(self, line: str) -> UserLine | InterruptLine:
        """Return what a line asks for.

        Raises:
            ConfigurationError: It is no such line; the error names its number, without the empty ones.
        """
        self._count += 1
        try:
            return _IN.validate_python(json.loads(line))
        except ValidationError as error:
            problems = "; ".join(
                ": ".join(filter(None, (".".join(map(str, each["loc"])), each["msg"]))) for each in error.errors()
            )
            raise ConfigurationError(f"line {self._count} is neither {_USER} nor {_INTERRUPT} ({problems})") from None
        except (ValueError, RecursionError) as error:  # a number of too many digits is a ValueError only
            raise ConfigurationError(f"line {self._count} is not JSON ({error})") from None


class JsonView:
    """Shows a call as JSON lines.

    Args:
        out: Where they are written, each at once.
    """

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._reason = ""
        self._is_gone = False

    def __enter__(self) -> JsonView:
        return self

    def __exit__(self, *exc: object) -> None:
        """Leave the end to `end`: an error may still be told."""

    def end(self) -> None:
        """Write the last line."""
        self._write(EndedLine(reason=self._reason or "it could not begin"))

    def ready(self) -> None:
        """The agent waits for the next line."""
        self._write(ReadyLine())

    def note(self, text: str) -> None:
        """Write a note."""
        self._write(NoteLine(text=text))

    def problem(self, text: str) -> None:
        """Write an error."""
        self._write(ErrorLine(message=text))

    def part(self, text: str) -> None:
        """Write a part of a rich reply."""
        self._write(PartLine(text=text))

    def ending(self, why: str) -> None:
        """The input, or the user of the command, ends the call; the first reason counts."""
        self._reason = self._reason or why

    def call_ended(self, reason: str) -> None:
        """The session is closed."""
        if not self._reason or reason != CloseReason.JOB_ENDED:
            self._reason = reason

    def user_state(self, state: UserState) -> None:
        """Write nothing: a caller who types neither begins nor ends to speak."""

    def agent_state(self, state: AgentState) -> None:
        """Write the agent's state."""
        self._write(StateLine(agent=state))

    def level(self, decibels: float | None) -> None:
        """Write nothing: there is no microphone."""

    def interim(self, text: str) -> None:
        """Write nothing: a line is whole."""

    def caller_said(self, text: str) -> None:
        """Write the caller's words as the history has them."""
        self._write(UserLine(text=text))

    def agent_said(self, text: str, *, interrupted: bool) -> None:
        """Write the agent's words."""
        self._write(AgentLine(text=text, interrupted=interrupted))

    def tool(self, name: str, arguments: str, output: str, *, is_error: bool) -> None:
        """Write a tool's call."""
        self._write(ToolLine(name=name, arguments=arguments, output=output, is_error=is_error))

    def turn(self, record: TurnRecord) -> None:
        """Write the outcome of a turn."""
        self._write(
            TurnLine(
                turn_id=record.turn_id,
                kind=record.kind,
                outcome=record.outcome,
                latency=record.e2e_latency,
                error=record.error,
            )
        )

    def _write(self, line: _Line) -> None:
        if self._is_gone:
            return
        plain = line.model_dump(mode="json")
        try:
            try:
                self._out.write(f"{json.dumps(plain, ensure_ascii=False)}\n")
            except UnicodeEncodeError:  # not every locale writes every letter
                self._out.write(f"{json.dumps(plain)}\n")
            self._out.flush()
        except BrokenPipeError as error:
            self._is_gone = True
            logger.debug("nobody reads the lines any more: %s", error)
