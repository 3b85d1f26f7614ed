"""Turns of the caller on their way past the extensions of a session."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from kit.extensions import Look, Looking, OnTurn, Second, answering, drop
from kit.graphs import RealtimeHarness
from kit.keeping import Keeping
from vivavoce.agents import Agent, ContentGuard, GuardedText, GuardVerdict, SessionOptions, SpeechLimits, function_tool
from vivavoce.agents.events import ErrorOccurred
from vivavoce.agents.extension.extension import Attached, Extension, Host
from vivavoce.agents.extension.text_parts import TextParts
from vivavoce.agents.extension.turn_in_hand import TurnInHand
from vivavoce.agents.session_watch import watch_scope
from vivavoce.agents.testing import ScriptedLLM, ScriptedRealtimeModel, SessionHarness
from vivavoce.pipelines.core.errors import ConfigurationError, ProviderTimeoutError
from vivavoce.pipelines.llm.tools import ToolCall

KINDS = pytest.mark.parametrize("kind", [SessionHarness, RealtimeHarness], ids=["cascade", "realtime"])


class Broken(Extension):
    """Its plain calls raise."""

    key = "broken"

    def attach(self, host: Host) -> Attached:
        return BrokenPart()


class BrokenPart(Attached):
    async def on_turn(self, turn: TurnInHand) -> None:
        await anyio.sleep(1.5)

    def entered(self) -> None:
        raise OSError("entered is broken")

    def undo(self, turn: TurnInHand) -> None:
        raise OSError("undo is broken")

    def end(self) -> None:
        raise OSError("end is broken")


def harness_with(
    *extensions: Extension,
    llm: ScriptedLLM | None = None,
    kind: type[SessionHarness] = SessionHarness,
    agent: Agent | None = None,
    **options: Any,
) -> SessionHarness:
    """A call with one turn, from 0.5 to 1.5 s, which is committed at 1.9 s."""
    model = ScriptedLLM("Soup.", "Fish.") if llm is None else llm
    harness = kind(agent or Agent("Help."), model, options=SessionOptions(extensions=extensions, **options))
    harness.caller.says("what is there", 0.5, 1.5)
    return harness


def part(harness: SessionHarness, kind: type[Extension] = Look) -> Looking:
    looking = harness.session.extension(kind)
    assert isinstance(looking, Looking)
    return looking


def errors(harness: SessionHarness) -> list[tuple[str, type[Exception]]]:
    return [(event.source, type(event.error)) for event in harness.recording.of(ErrorOccurred)]


@KINDS
def test_material_is_in_the_first_request_of_the_answer_alone(kind: type[SessionHarness]) -> None:
    class Cook(Agent):
        @function_tool
        async def look_up(self) -> str:
            """Look it up."""
            return "none"

    async def add(host: Host, turn: TurnInHand) -> None:
        turn.add("The soup is leek.", source="the menu")

    llm = ScriptedLLM([ToolCall(call_id="c1", name="look_up", arguments="{}")], "Leek soup.")
    harness = harness_with(Look(add), llm=llm, kind=kind, agent=Cook("Help.")).run(until=5.0)
    first, second = harness.llm.requests
    assert first.extra_instructions == (
        "Material from the menu for this answer:\n<material>\nThe soup is leek.\n</material>"
    )
    assert second.extra_instructions == ""
    assert [item.content for item in harness.session.history.messages()] == ["what is there", "Leek soup."]
    assert [text for _, text, _ in part(harness).turns] == ["what is there"]


@KINDS
def test_the_words_are_those_that_hook_and_guard_have_left(kind: type[SessionHarness]) -> None:
    async def judge(text: GuardedText) -> GuardVerdict:
        return GuardVerdict("replace", "what is served")

    guard = ContentGuard(judge=judge, agent=False)
    harness = harness_with(Look(), kind=kind, guard=guard).run(until=5.0)
    assert [text for _, text, _ in part(harness).turns] == ["what is served"]


@KINDS
def test_an_extension_answers_in_place_of_the_model(kind: type[SessionHarness]) -> None:
    async def answer(host: Host, turn: TurnInHand) -> None:
        await anyio.sleep(0.4)
        await answering("We have soup.")(host, turn)

    harness = harness_with(Look(answer), kind=kind).run(until=5.0)
    harness.expect_history(("user", "what is there"), ("assistant", "We have soup.")).expect_outcomes("completed")
    assert harness.llm.requests == []
    (record,) = harness.session.turns
    assert [round(stage.seconds, 6) for stage in record.stages if stage.name == "look"] == [0.4]


def test_an_answer_that_breaks_off_fails_the_speech_by_the_key_of_the_extension() -> None:
    async def answer(host: Host, turn: TurnInHand) -> None:
        parts = TextParts()
        parts.push("We ")
        parts.close(OSError("the kitchen is gone"))
        turn.answer(parts)

    harness = harness_with(Look(answer)).expects_error("look", contains="the kitchen is gone").run(until=5.0)
    harness.expect_outcomes("failed")
    assert errors(harness) == [("look", OSError)]


def test_an_answer_without_text_ends_by_the_limits_of_a_model_s_text() -> None:
    async def answer(host: Host, turn: TurnInHand) -> None:
        turn.answer(TextParts())

    limits = SpeechLimits(llm_first_token=2.0)
    harness = harness_with(Look(answer), speech=limits).expects_error("look").run(until=6.0)
    harness.expect_outcomes("failed")
    assert errors(harness) == [("look", ProviderTimeoutError)]


@KINDS
def test_a_dropped_turn_has_no_answer_and_is_not_in_the_history(kind: type[SessionHarness]) -> None:
    harness = harness_with(Look(drop), kind=kind).run(until=5.0)
    harness.expect_history().expect_outcomes("discarded")
    assert harness.llm.requests == []


@pytest.mark.parametrize("first", [answering("We have soup."), drop], ids=["answered", "dropped"])
def test_an_extension_behind_one_that_has_settled_the_turn_is_not_asked(first: OnTurn) -> None:
    harness = harness_with(Look(first), Second(answering("Never."))).run(until=5.0)
    assert len(part(harness).turns) == 1
    assert part(harness, Second).turns == []
    assert "Never." not in [item.content for item in harness.session.history.messages()]


def test_the_first_answer_counts_and_one_behind_on_turn_does_not() -> None:
    turns: list[TurnInHand] = []

    async def keep(host: Host, turn: TurnInHand) -> None:
        turns.append(turn)

    async def late(host: Host, turn: TurnInHand) -> None:
        await answering("We have soup.")(host, turn)
        await drop(host, turns[0])
        await answering("Never.")(host, turns[0])

    harness = harness_with(Look(keep), Second(late)).run(until=5.0)
    harness.expect_history(("user", "what is there"), ("assistant", "We have soup."))
    turns[0].drop()
    assert not turns[0].is_dropped
    assert turns[0].settled_by == "second"


@KINDS
def test_one_that_raises_is_one_error_and_the_model_answers(kind: type[SessionHarness]) -> None:
    async def fail(host: Host, turn: TurnInHand) -> None:
        turn.add("kept all the same")
        raise OSError("no shelf")

    harness = harness_with(Look(fail), Second(), kind=kind).expects_error("look", contains="no shelf").run(until=5.0)
    harness.expect_history(("user", "what is there"), ("assistant", "Soup."))
    assert errors(harness) == [("look", OSError)]
    assert len(part(harness, Second).turns) == 1


@pytest.mark.parametrize(("limit", "seconds"), [(2.0, 2.0), (None, 3.0)])
def test_one_that_hangs_is_cut_at_its_limit_and_the_model_answers(limit: float | None, seconds: float) -> None:
    async def hang(host: Host, turn: TurnInHand) -> None:
        await anyio.sleep_forever()

    speech = SpeechLimits(hook_timeout=3.0)
    harness = harness_with(Look(hang, limit=limit), speech=speech).expects_error("look", contains="did not end within")
    harness.run(until=8.0)
    harness.expect_history(("user", "what is there"), ("assistant", "Soup."))
    assert errors(harness) == [("look", TimeoutError)]
    (record,) = harness.session.turns
    assert [round(stage.seconds, 6) for stage in record.stages if stage.name == "look"] == [seconds]


def test_a_failing_extension_of_the_application_fails_a_test_as_a_hook_does() -> None:
    async def fail(host: Host, turn: TurnInHand) -> None:
        raise OSError("no shelf")

    with pytest.raises(AssertionError, match="no shelf"):
        harness_with(Look(fail)).run(until=5.0)


@KINDS
def test_speech_that_it_asks_for_is_heard_before_the_answer(kind: type[SessionHarness]) -> None:
    async def speak(host: Host, turn: TurnInHand) -> None:
        await host.say("One moment.")

    speech = SpeechLimits(hook_timeout=0.3)  # stands still meanwhile
    harness = harness_with(Look(speak), kind=kind, speech=speech).run(until=8.0)
    harness.expect_history(("user", "what is there"), ("assistant", "One moment."), ("assistant", "Soup."))
    harness.expect_outcomes("completed", "completed")
    assert errors(harness) == []


def test_words_that_go_on_cut_it_and_it_takes_the_turn_back_and_gets_the_whole_one() -> None:
    ends: list[str] = []

    async def wait(host: Host, turn: TurnInHand) -> None:
        try:
            await anyio.sleep(1.5)
        except anyio.get_cancelled_exc_class():
            ends.append(turn.text)
            raise

    harness = harness_with(Look(wait))
    harness.caller.says("to eat", 2.5, 3.0)
    harness.run(until=8.0)
    assert ends == ["what is there"]
    assert part(harness).undone == ["what is there"]
    assert [text for _, text, _ in part(harness).turns] == ["what is there", "what is there to eat"]
    harness.expect_history(("user", "what is there to eat"), ("assistant", "Soup."))


def test_an_interruption_by_the_application_ends_it_at_once() -> None:
    ends: list[float] = []

    async def wait(host: Host, turn: TurnInHand) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            ends.append(round(host.context.clock.now(), 6))

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(3.0)
        await harness.session.interrupt()

    harness = harness_with(Look(wait)).run(scenario, until=6.0)
    assert [end - 3.0 for end in ends] == [pytest.approx(0.0, abs=0.01)]
    assert harness.llm.requests == []
    assert errors(harness) == []


def test_a_model_whose_server_has_begun_the_answer_does_not_wait() -> None:
    added: list[TurnInHand] = []

    async def look(host: Host, turn: TurnInHand) -> None:
        await anyio.sleep(2.0)
        await answering("Never.")(host, turn)
        turn.add("too late")
        added.append(turn)

    model = ScriptedRealtimeModel()
    harness = SessionHarness(Agent("Help."), model=model, options=SessionOptions(extensions=(Look(look),)))

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(2.0)
        model.start_reply([0.1, "Soup."])

    harness.caller.says("what is there", 0.5, 1.5)
    harness.run(scenario, until=8.0)
    harness.expect_history(("user", "what is there"), ("assistant", "Soup."))
    assert harness.played[0].start < 3.0
    assert len(part(harness).turns) == 1
    assert [(turn.is_remote, turn.material, turn.settled_by) for turn in added] == [(True, [], "")]


@pytest.mark.parametrize(("answers", "said"), [(True, ["Soup."]), (False, ["Soup.", "Fish."])])
def test_a_result_that_it_has_answered_is_not_given_to_the_model(answers: bool, said: list[str]) -> None:
    class Cook(Agent):
        @function_tool
        async def look_up(self) -> str:
            """Look it up."""
            return "found"

    llm = ScriptedLLM(["Soup.", ToolCall(call_id="c1", name="look_up", arguments="{}")], "Fish.")
    harness = harness_with(Look(answers_tools=answers), Second(), llm=llm, agent=Cook("Help.")).run(until=8.0)
    assert part(harness).results == part(harness, Second).results == ["found"]
    assert [item.content for item in harness.session.history.messages("assistant")] == said
    assert len(harness.llm.requests) == len(said)


def test_one_whose_snapshot_has_the_effect_of_a_turn_does_not_get_it_again_after_a_crash() -> None:
    async def take(host: Host, turn: TurnInHand) -> None:
        turn.note_taken("look", is_taken=True)
        await anyio.sleep(1.0)

    store = Keeping()
    first = harness_with(Look(take), Second())
    with watch_scope(store):
        first.run(until=2.5)
    second = SessionHarness(
        Agent("Help.", id=first.session.agent.id),
        ScriptedLLM("Soup."),
        options=SessionOptions(extensions=(Look(take), Second())),
    )
    second.resume_from = next(kept for kept in store.kept if kept["open"] and kept["open"]["passed"]["taken_by"])
    second.run(until=4.0)
    assert part(second).turns == []
    assert [text for _, text, _ in part(second, Second).turns] == ["what is there"]
    second.expect_history(("user", "what is there"), ("assistant", "Soup."))


def test_an_extension_whose_plain_calls_raise_harms_neither_the_others_nor_the_close() -> None:
    harness = harness_with(Look(), Broken(), Second()).expects_error("broken")
    harness.caller.says("to eat", 2.0, 2.5)
    harness.run(until=8.0)
    assert errors(harness) == [("broken", OSError)] * 3  # entered, undo, end
    assert part(harness).undone == ["what is there"]
    assert part(harness, Second).undone == []  # it had not got the turn yet
    harness.expect_history(("user", "what is there to eat"), ("assistant", "Soup."))
    assert harness.close_report is not None
    assert not harness.close_report.error


def test_two_extensions_with_one_key_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="each extension once, got two with the key 'look'"):
        harness_with(Look(), Look()).run(until=1.0)
