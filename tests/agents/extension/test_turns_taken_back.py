"""Turns that are taken back, or that the close cuts, while an extension looks at them."""

from __future__ import annotations

from typing import Any

import anyio

from kit.extensions import Look, Looking
from vivavoce.agents import Agent, SessionOptions
from vivavoce.agents.extension.extension import Attached, Host
from vivavoce.agents.extension.turn_in_hand import TurnInHand
from vivavoce.agents.testing import ScriptedLLM, ScriptedRealtimeModel, SessionHarness


class Noted(Looking):
    """Notes the beginning and the end of each `on_turn`, each `undo`, the end and the close."""

    close_after = "handlers"

    def __init__(self, host: Host, given: Look, *, clings: float) -> None:
        super().__init__(host, given)
        self.calls: list[str] = []
        self._clings = clings

    async def on_turn(self, turn: TurnInHand) -> None:
        text = turn.text
        self.calls.append(f"begin {text}")
        try:
            await super().on_turn(turn)
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.sleep(self._clings)
            self.calls.append(f"end {text}")

    def undo(self, turn: TurnInHand) -> None:
        self.calls.append(f"undo {turn.text}")

    def end(self) -> None:
        self.calls.append("the close begins")

    async def aclose(self) -> None:
        self.calls.append("aclose")


class Noting(Look):
    clings = 0.05

    def attach(self, host: Host) -> Attached:
        return Noted(host, self, clings=self.clings)


class Clinging(Noting):
    clings = 5.0


async def slowly(host: Host, turn: TurnInHand) -> None:
    await anyio.sleep(60.0)


async def once_slowly(host: Host, turn: TurnInHand) -> None:
    if turn.text == "what is there":
        await anyio.sleep(60.0)


def call(look: Look, *, model: ScriptedRealtimeModel | None = None, **parts: Any) -> SessionHarness:
    """A call with one turn, from 0.5 to 1.5 s."""
    given = {"model": model} if model is not None else {"llm": ScriptedLLM("Soup.", "Fish.")}
    harness = SessionHarness(Agent("Help."), options=SessionOptions(extensions=(look,)), **given, **parts)
    harness.caller.says("what is there", 0.5, 1.5)
    return harness


def calls(harness: SessionHarness, kind: type[Look] = Noting) -> list[str]:
    part = harness.session.extension(kind)
    assert isinstance(part, Noted)
    return part.calls


def test_on_turn_ends_before_the_turn_is_taken_back_and_before_it_comes_again() -> None:
    harness = call(Noting(once_slowly))
    harness.caller.says("to eat", 2.5, 3.0)
    harness.run(until=8.0)
    assert calls(harness)[:5] == [
        "begin what is there",
        "end what is there",
        "undo what is there",
        "begin what is there to eat",
        "end what is there to eat",
    ]
    harness.expect_history(("user", "what is there to eat"), ("assistant", "Soup."))


def test_words_that_change_ahead_end_on_turn_before_the_new_words_come() -> None:
    harness = SessionHarness(
        Agent("Help."),
        ScriptedLLM(default="Soup."),
        options=SessionOptions(extensions=(Noting(slow_on_yellow, judges="words"),)),
    )
    harness.preemptive = True
    harness.caller.says("hello there", 0.5, 2.5, final_at=2.7, interims=((2.0, "yellow hair"),))
    harness.run(until=6.0)
    assert calls(harness)[:5] == [
        "begin yellow hair",
        "end yellow hair",
        "undo yellow hair",
        "begin hello there",
        "end hello there",
    ]
    harness.expect_history(("user", "hello there"), ("assistant", "Soup."))


async def slow_on_yellow(host: Host, turn: TurnInHand) -> None:
    if turn.text == "yellow hair":
        await anyio.sleep(60.0)


def test_an_on_turn_that_clings_holds_the_next_one_for_two_seconds_only() -> None:
    harness = call(Clinging(once_slowly))
    harness.caller.says("to eat", 2.5, 3.0)
    harness.run(until=16.0)
    assert calls(harness, Clinging)[:2] == ["begin what is there", "begin what is there to eat"]


def test_the_close_cuts_on_turn_of_a_turn_that_the_server_answers_before_anything_is_closed() -> None:
    model = ScriptedRealtimeModel()
    harness = call(Noting(slowly), model=model)

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(2.0)
        model.start_reply([0.1, "Soup."])
        await harness.until(5.0)

    harness.run(scenario)
    assert calls(harness) == ["begin what is there", "the close begins", "end what is there", "aclose"]


def test_an_answer_of_the_server_that_is_withdrawn_ends_on_turn_and_takes_the_turn_back() -> None:
    model = ScriptedRealtimeModel()
    harness = call(Noting(slowly), model=model)
    harness.caller.says("to eat", 2.3, 3.0)

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(2.0)
        model.start_reply([2.0, "Soup."])
        await harness.until(6.0)

    harness.run(scenario)
    assert calls(harness)[:3] == ["begin what is there", "end what is there", "undo what is there"]


def test_the_close_cuts_on_turn_of_a_turn_that_waits_and_no_model_is_asked() -> None:
    harness = call(Noting(slowly))
    harness.run(until=4.0)
    assert calls(harness) == ["begin what is there", "the close begins", "end what is there", "aclose"]
    assert harness.llm.requests == []
    harness.expect_outcomes("cancelled")
    assert harness.close_report is not None
    assert harness.close_report.is_clean
