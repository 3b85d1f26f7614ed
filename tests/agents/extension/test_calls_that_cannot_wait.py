"""Calls of an extension that cannot wait: `turn_over` has each record of a turn, and an error ends nothing."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from vivavoce.agents import Agent, Extension, SessionOptions
from vivavoce.agents.events import ErrorOccurred
from vivavoce.agents.extension import Attached, Host
from vivavoce.agents.records import TurnRecord
from vivavoce.agents.testing import ScriptedLLM, SessionHarness


@dataclass(frozen=True)
class Watch(Extension):
    """Notes the calls, then raises `error`."""

    key: ClassVar[str] = "watch"
    calls: list[TurnRecord | str] = field(default_factory=list)
    error: BaseException | None = None

    def attach(self, host: Host) -> Attached:
        return Watching(self)

    def note(self, call: TurnRecord | str) -> None:
        self.calls.append(call)
        if self.error is not None:
            raise self.error


class Watching(Attached):
    def __init__(self, watch: Watch) -> None:
        self._watch = watch

    def turn_over(self, record: TurnRecord) -> None:
        self._watch.note(record)

    def end(self) -> None:
        self._watch.note("end")

    def release(self) -> None:
        self._watch.note("release")


class Greeter(Agent):
    async def on_enter(self) -> None:
        await self.session.say("Hello!")


def call(watch: Watch) -> SessionHarness:
    """Return a call with a greeting and one turn."""
    options = SessionOptions(extensions=(watch,))
    harness = SessionHarness(Greeter("Help."), ScriptedLLM(default="Fine."), options=options)
    harness.caller.says("on friday", 3.0, 4.0)
    return harness


def test_an_extension_has_the_record_of_each_turn_and_of_each_other_speech() -> None:
    watch = Watch()
    session = call(watch).run(until=8.0).session
    assert [record.kind for record in session.turns] == ["say", "turn"]
    assert watch.calls == [*session.turns, "end", "release"]


def test_an_extension_that_raises_is_an_error_event_and_call_and_close_go_on() -> None:
    watch = Watch(error=SystemExit("a fault"))
    harness = call(watch).expects_error("watch").run(until=8.0)
    harness.expect_history(("assistant", "Hello!"), ("user", "on friday"), ("assistant", "Fine."))
    assert watch.calls[2:] == ["end", "release"]
    errors = harness.recording.of(ErrorOccurred)
    assert [(event.source, str(event.error).partition(" of ")[0]) for event in errors] == [
        ("watch", "turn_over"),
        ("watch", "turn_over"),
        ("watch", "end"),
    ]
