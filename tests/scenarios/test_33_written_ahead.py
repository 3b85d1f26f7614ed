"""Scenario 33: a commit and a call survive the process. They are written ahead, and a session that resumes answers."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from kit.keeping import Keeping
from vivavoce.agents import Agent, CompletedTurn, StopResponse, function_tool
from vivavoce.agents.events import ErrorOccurred
from vivavoce.agents.session_watch import watch_scope
from vivavoce.agents.testing import ScriptedLLM, SessionHarness
from vivavoce.pipelines.llm.chat_context import FunctionCall, FunctionCallOutput
from vivavoce.pipelines.llm.tools import ToolCall

BOOK = ToolCall(call_id="c1", name="book", arguments='{"day": "friday"}')
LOOK_UP = ToolCall(call_id="c2", name="look_up", arguments="{}")


class Host(Agent):
    """Takes bookings; each run of a tool is noted with its time, and takes as long as the test says."""

    def __init__(self, seconds: float = 0.0) -> None:
        super().__init__("Take bookings.", id="host")
        self.seconds = seconds
        self.runs: list[tuple[str, float]] = []

    @function_tool
    async def book(self, day: str) -> str:
        """Book a table."""
        self.runs.append(("book", anyio.current_time()))
        await anyio.sleep(self.seconds)
        return "booked"

    @function_tool(idempotent=True)
    async def look_up(self) -> str:
        """Look the opening hours up."""
        self.runs.append(("look_up", anyio.current_time()))
        await anyio.sleep(self.seconds)
        return "open until ten"


def asks(*answers: Any, agent: Agent | None = None, store: Keeping, until: float = 4.0) -> SessionHarness:
    """Run a call whose only turn is committed at 1.9, and whose model answers after 0.1 s, its voice after 0.2 s."""
    harness = SessionHarness(agent or Host(), ScriptedLLM(*answers, delay=0.1))
    harness.caller.says("a table please", 0.5, 1.5)
    with watch_scope(store):
        harness.run(until=until)
    return harness


def goes_on(kept: dict[str, Any], *answers: Any, agent: Agent | None = None, until: float = 6.0) -> SessionHarness:
    """Run a session that resumes what was kept; nobody says anything."""
    harness = SessionHarness(agent or Host(), ScriptedLLM(*answers, delay=0.1))
    harness.resume_from = kept
    return harness.run(until=until)


def crashed_after(store: Keeping, number: int) -> dict[str, Any]:
    """Return what another process finds if this one dies after that write, counted from the session's start."""
    return store.kept[number]


def outputs(harness: SessionHarness) -> list[tuple[str, bool]]:
    items = harness.session.history.items
    return [(item.output, item.is_error) for item in items if isinstance(item, FunctionCallOutput)]


def stages(harness: SessionHarness) -> dict[str, float]:
    (turn,) = harness.session.turns
    return {stage.name: round(stage.seconds, 3) for stage in turn.stages}


def test_the_users_words_are_kept_at_the_commit_and_no_frame_waits_for_a_store_that_is_quick() -> None:
    store = Keeping()
    harness = asks("For when?", store=store)
    harness.expect_played((2.2, 0.4))
    assert store.said == [[], ["a table please"], ["a table please", "For when?"]]
    assert "checkpoint" not in stages(harness)


@pytest.mark.parametrize(("delay", "waited"), [(0.25, 0.0), (0.35, 0.05), (9.0, 0.1)])
def test_the_first_frame_of_an_answer_waits_for_the_store_a_tenth_of_a_second_and_its_request_does_not(
    delay: float, waited: float
) -> None:
    store = Keeping()

    async def scenario(harness: SessionHarness) -> None:
        store.delay = delay
        await harness.until(1.0)

    harness = SessionHarness(Host(), ScriptedLLM("For when?", delay=0.1))
    harness.caller.says("a table please", 0.5, 1.5)
    if delay > 1.0:
        harness.expects_error("checkpoint", contains="within 0.1 s")
    with watch_scope(store):
        harness.run(scenario, until=4.0)
    harness.expect_played((2.2 + waited, 0.4))
    assert stages(harness).get("checkpoint", 0.0) == pytest.approx(waited)
    (turn,) = harness.session.turns
    assert sum(stage.seconds for stage in turn.stages) == pytest.approx(turn.e2e_latency)
    assert turn.llm_first_token == pytest.approx(0.1)


def test_a_store_that_is_late_or_fails_costs_one_error_and_no_more_waiting_until_it_has_answered() -> None:
    store = Keeping()
    harness = SessionHarness(Host(), ScriptedLLM("One.", "Two.", "Three.", delay=0.1))
    harness.caller.says("first", 0.5, 1.5)
    harness.caller.says("second", 4.5, 5.5)
    harness.caller.says("third", 14.5, 15.5)
    harness.expects_error("checkpoint")

    async def scenario(harness: SessionHarness) -> None:
        store.delay = 8.0
        await harness.until(12.0)  # it has answered at 9.9
        store.error = OSError("disk full")
        store.delay = 0.02

    with watch_scope(store):
        harness.run(scenario, until=18.0)
    waits = [[s.seconds for s in turn.stages if s.name == "checkpoint"] for turn in harness.session.turns]
    assert waits == [[pytest.approx(0.1)], [], []]
    errors = [str(event.error) for event in harness.recording.of(ErrorOccurred)]
    assert len(errors) == 2
    assert "within 0.1 s" in errors[0]
    assert "disk full" in errors[1]


def test_a_store_that_stays_late_costs_one_error_until_it_has_written_in_time() -> None:
    store = Keeping()
    harness = SessionHarness(Host(), ScriptedLLM(*["For when?"] * 5, delay=0.05))
    for number in range(5):
        harness.caller.says("a table please", 0.5 + 5 * number, 1.5 + 5 * number)
    harness.expects_error("checkpoint")

    async def scenario(harness: SessionHarness) -> None:
        store.delay = 0.6
        await harness.until(13.0)
        store.delay = 0.0
        await harness.until(18.0)
        store.delay = 0.6
        await harness.until(25.0)

    with watch_scope(store):
        harness.run(scenario)
    errors = harness.recording.of(ErrorOccurred)
    assert len(errors) == 2
    assert all("is late, it has not written within 0.1 s" in str(event.error) for event in errors)


def test_a_call_is_kept_before_its_tool_runs() -> None:
    store = Keeping()
    agent = Host(seconds=1.0)
    harness = asks([BOOK], "Booked.", agent=agent, store=store, until=6.0)
    assert harness.session.turns[-1].outcome == "completed"
    assert len(agent.runs) == 1
    begun = [one["open"]["calls"] for one in store.kept if one["open"] is not None]
    assert ["book"] in [[call["name"] for call in calls] for calls in begun]
    assert store.kept[-1]["open"] is None


@pytest.mark.parametrize(("delay", "waited"), [(0.3, 0.3), (9.0, 0.5)])
def test_a_tool_waits_half_a_second_for_a_store_that_is_late(delay: float, waited: float) -> None:
    store, agent = Keeping(), Host()
    harness = SessionHarness(agent, ScriptedLLM([BOOK], "Booked.", delay=0.1))
    harness.caller.says("a table please", 0.5, 1.5)
    if delay > 1.0:
        harness.expects_error("checkpoint", contains="within 0.5 s")

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(1.95)
        store.delay = delay

    with watch_scope(store):
        harness.run(scenario, until=6.0)
    ((_, ran_at),) = agent.runs
    assert ran_at - (harness.session.turns[0].committed_at or 0.0) == pytest.approx(0.1 + waited)
    assert stages(harness)["checkpoint"] == pytest.approx(waited)


def test_a_session_that_resumes_with_an_unanswered_message_answers_it() -> None:
    store = Keeping()
    asks("For when?", store=store)
    harness = goes_on(crashed_after(store, 1), "For which day?")
    harness.expect_history(("user", "a table please"), ("assistant", "For which day?"))
    (turn,) = harness.session.turns
    assert turn.outcome == "completed"
    assert turn.answers_turn_id == "turn_1"


def test_a_session_that_resumes_an_answered_turn_says_nothing() -> None:
    store = Keeping()
    asks("For when?", store=store)
    harness = goes_on(crashed_after(store, -1))
    harness.expect_history(("user", "a table please"), ("assistant", "For when?"))
    assert harness.session.turns == ()


def test_words_that_come_before_the_resumed_answer_are_answered_together_with_the_open_turn() -> None:
    store = Keeping()
    asks("For when?", store=store)
    harness = SessionHarness(Host(), ScriptedLLM("This is not heard.", "Yes, for which day?", delay=0.1))
    harness.resume_from = crashed_after(store, 1)
    harness.caller.says("hello are you there", 0.04, 1.0)
    harness.run(until=4.0)
    assert [turn.outcome for turn in harness.session.turns] == ["cancelled", "completed"]
    harness.expect_history(
        ("user", "a table please"), ("user", "hello are you there"), ("assistant", "Yes, for which day?")
    )


def test_a_call_that_had_begun_is_told_to_the_model_as_broken_off_and_does_not_run_again() -> None:
    store, agent = Keeping(), Host()
    asks([BOOK], "Booked.", agent=Host(seconds=1.0), store=store, until=6.0)
    began = next(one for one in store.kept if one["open"] and one["open"]["calls"])
    harness = goes_on(began, "I am not sure that it is booked.", agent=agent)
    assert agent.runs == []
    ((text, is_error),) = outputs(harness)
    assert is_error
    assert "broken off" in text
    request = harness.llm.requests[0].context.items
    assert [type(item) for item in request[-2:]] == [FunctionCall, FunctionCallOutput]
    assert harness.session.history.messages("assistant")[-1].content == "I am not sure that it is booked."
    assert len(harness.llm.requests) == 1


def test_a_call_of_a_tool_that_is_idempotent_runs_again_and_its_result_is_answered() -> None:
    store, agent = Keeping(), Host()
    asks([BOOK, LOOK_UP], "Done.", agent=Host(seconds=1.0), store=store, until=6.0)
    began = next(one for one in store.kept if one["open"] and one["open"]["calls"])
    harness = goes_on(began, "We are open until ten.", agent=agent)
    assert [name for name, _ in agent.runs] == ["look_up"]
    (broken, _), (again, _) = outputs(harness)
    assert "broken off" in broken
    assert again == "open until ten"
    assert len(harness.llm.requests) == 1
    assert harness.session.history.messages("assistant")[-1].content == "We are open until ten."


def test_a_call_with_a_result_keeps_it() -> None:
    store, agent = Keeping(), Host()
    asks([BOOK], [0.5, "Booked."], agent=Host(), store=store)
    ran = next(one for one in store.kept if _has_output(one) and one["open"])
    harness = goes_on(ran, "It is booked.", agent=agent)
    assert agent.runs == []
    assert outputs(harness) == [("booked", False)]
    assert harness.session.history.messages("assistant")[-1].content == "It is booked."


def _has_output(kept: dict[str, Any]) -> bool:
    return any(item["type"] == "function_call_output" for item in kept["history"]["items"])


def test_a_second_crash_before_the_answer_leaves_the_turn_open() -> None:
    first, second = Keeping(), Keeping()
    asks("For when?", store=first)
    harness = SessionHarness(Host(), ScriptedLLM("For which day?", delay=3.0))
    harness.resume_from = crashed_after(first, 1)
    with watch_scope(second):
        harness.run(until=2.0)
    assert second.kept[0]["open"]["turn_id"] == "turn_1"


class Editing(Host):
    async def on_user_turn_completed(self, turn: CompletedTurn) -> None:
        if "table" in turn.text:
            raise StopResponse


def test_the_hook_of_the_turn_runs_for_the_resumed_answer_too() -> None:
    store = Keeping()
    asks("For when?", store=store)
    harness = goes_on(crashed_after(store, 1), agent=Editing())
    harness.expect_history()
    assert [turn.outcome for turn in harness.session.turns] == ["discarded"]
