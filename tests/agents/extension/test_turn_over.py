"""`turn_over` of an extension: one call for each record of a turn; an error of it ends nothing."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from vivavoce.agents import Agent, Extension, SessionOptions, TurnRecord
from vivavoce.agents.events import ErrorOccurred
from vivavoce.agents.extension import Attached, Host
from vivavoce.agents.testing import ScriptedLLM, SessionHarness


@dataclass(frozen=True)
class Records(Extension):
    """Collects the records, then raises `error`."""

    key: ClassVar[str] = "records"
    records: list[TurnRecord] = field(default_factory=list)
    error: BaseException | None = None

    def attach(self, host: Host) -> Attached:
        return Taking(self)


class Taking(Attached):
    def __init__(self, extension: Records) -> None:
        self._extension = extension

    def turn_over(self, record: TurnRecord) -> None:
        self._extension.records.append(record)
        if self._extension.error is not None:
            raise self._extension.error


class Greeter(Agent):
    async def on_enter(self) -> None:
        await self.session.say("Hello!")


def call(extension: Records) -> SessionHarness:
    """Return a call with a greeting and one turn."""
    options = SessionOptions(extensions=(extension,))
    harness = SessionHarness(Greeter("Help."), ScriptedLLM(default="Fine."), options=options)
    harness.caller.says("on friday", 3.0, 4.0)
    return harness


def test_an_extension_gets_the_record_of_each_turn_and_of_each_other_speech() -> None:
    extension = Records()
    harness = call(extension).run(until=8.0)
    assert [record.kind for record in extension.records] == ["say", "turn"]
    assert tuple(extension.records) == harness.session.turns


def test_an_extension_that_raises_is_an_error_event_and_the_call_goes_on() -> None:
    extension = Records(error=SystemExit("a fault"))
    harness = call(extension).expects_error("records").run(until=8.0)
    assert [event.source for event in harness.recording.of(ErrorOccurred)] == ["records", "records"]
    harness.expect_history(("assistant", "Hello!"), ("user", "on friday"), ("assistant", "Fine."))
