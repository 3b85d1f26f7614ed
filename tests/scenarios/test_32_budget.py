"""Scenario 32: a call with a budget: warning, limit, `degrade`, goodbye and close. One token costs one."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from vivavoce.agents import Agent, AgentSession, MemoryOptions, SessionOptions, function_tool
from vivavoce.agents.budget import Budget, BudgetOptions, Price
from vivavoce.agents.events import BudgetExceeded, BudgetWarning, Closed, ErrorOccurred
from vivavoce.agents.memory import InProcessStore
from vivavoce.agents.testing import ScriptedLLM, ScriptedRealtimeModel, SessionHarness, VirtualClock
from vivavoce.pipelines import RealtimePipeline
from vivavoce.pipelines.llm.base import Usage
from vivavoce.pipelines.llm.tools import ToolCall
from vivavoce.pipelines.testing import Step

TOKEN = Price(
    million_input=1e6,
    million_output=1e6,
    million_audio_input=1e7,
    million_audio_output=2e7,
    audio_minute=0,
    million_characters=0,
)
ANSWER = "one two three four five six seven eight nine ten."
"""Heard for 2.0 s."""
GOODBYE = "I have to go now, goodbye."
CALL = ToolCall(call_id="c1", name="book", arguments="{}")


def tokens(count: int) -> Usage:
    return Usage(input_tokens=count)


def calling(
    *answers: Step,
    agent: Agent | None = None,
    memory: dict[str, Any] | None = None,
    interims: tuple[tuple[float, str], ...] = (),
    **budget: Any,
) -> SessionHarness:
    """Return a call whose first turn ends at 2.5 and whose first answer is heard from 3.2 on."""
    options = BudgetOptions(**{"cost": 100, "prices": {"scripted": TOKEN}, "goodbye": GOODBYE, **budget})
    harness = SessionHarness(
        agent or Agent("Help."),
        ScriptedLLM(*answers),
        options=SessionOptions(memory=MemoryOptions(**(memory or {})), budget=options),
    )
    harness.caller.says("hello there", 0.5, 2.5, final_at=2.7, interims=interims)
    return harness


def _numbered(word: str, count: int, delay: float) -> list[Step]:
    return [[delay, f"{word} {number}.", tokens(1)] for number in range(count)]


def told(harness: SessionHarness) -> list[tuple[str, str, float, float]]:
    """Each event of the budget: name, kind, use and limit."""
    found: list[BudgetWarning | BudgetExceeded] = list(harness.recording.of(BudgetWarning))
    found += harness.recording.of(BudgetExceeded)
    found.sort(key=lambda event: event.sequence)
    return [(event.name, event.kind, event.use, event.allocation) for event in found]


def ended(harness: SessionHarness) -> tuple[str, float]:
    """Reason and time of the close."""
    (closed,) = harness.recording.of(Closed)
    return closed.report.reason, round(closed.at, 2)


def said(harness: SessionHarness) -> list[str]:
    return [text for role, text in harness.messages if role == "assistant"]


# --- warning and end


def test_near_the_limit_comes_a_warning_and_the_call_goes_on() -> None:
    harness = calling(["Sure.", tokens(85)], ["Yes.", tokens(5)])
    harness.caller.says("and then", 5.0, 6.0, final_at=6.2)
    harness.run(until=10.0)
    assert told(harness) == [("budget_warning", "cost", 85.0, 100.0)]
    assert said(harness) == ["Sure.", "Yes."]
    assert ended(harness)[0] == "user_initiated"


def test_over_the_limit_the_answer_is_heard_then_the_goodbye_and_the_session_closes() -> None:
    harness = calling([0.1, ANSWER, tokens(120)])
    harness.run(until=20.0)
    assert told(harness) == [("budget_warning", "cost", 120.0, 100.0), ("budget_exceeded", "cost", 120.0, 100.0)]
    assert said(harness) == [ANSWER, GOODBYE]
    answer, goodbye = harness.played
    assert goodbye.start == pytest.approx(answer.start + 2.0 + 0.2)
    reason, at = ended(harness)
    assert reason == "budget_exceeded"
    assert at == pytest.approx(goodbye.start + goodbye.seconds, abs=0.05)
    harness.expect_outcomes("completed", "completed")
    assert [mark.detail for mark in harness.session.report().marks if mark.name == "budget_exceeded"] == ["cost"]


def test_without_a_goodbye_the_session_closes_when_the_answer_was_heard() -> None:
    harness = calling([0.1, ANSWER, tokens(120)], goodbye="")
    harness.run(until=20.0)
    (answer,) = harness.played
    assert (said(harness), ended(harness)[0]) == ([ANSWER], "budget_exceeded")
    assert ended(harness)[1] == pytest.approx(answer.start + 2.0, abs=0.05)


def test_with_hangup_the_caller_is_disconnected_after_the_goodbye() -> None:
    harness = calling([0.1, ANSWER, tokens(120)], then="hangup")
    harness.run(until=20.0)
    assert (said(harness), harness.room.hung_up) == ([ANSWER, GOODBYE], ["caller"])
    assert ended(harness)[0] == "budget_exceeded"


def test_the_caller_is_disconnected_after_the_goodbye_though_words_said_during_it_are_being_answered() -> None:
    class Books(Agent):
        @function_tool(timeout=600)
        async def book(self) -> str:
            """Book."""
            await anyio.sleep_forever()
            return ""

    goodbye = "I have to go now, " * 4 + "goodbye."
    harness = calling(
        [0.1, ANSWER, tokens(120)],
        [0.1, CALL, tokens(1)],
        agent=Books("Help."),
        then="hangup",
        goodbye=goodbye,
    )
    harness.caller.says("one more thing", 6.0, 7.0, final_at=7.2)
    harness.run(until=60.0)
    assert said(harness) == [ANSWER, goodbye]
    assert harness.room.hung_up == ["caller"]
    reason, at = ended(harness)
    assert (reason, at < 15.0) == ("budget_exceeded", True)


def test_an_answer_that_the_caller_cuts_is_followed_by_the_goodbye_all_the_same() -> None:
    harness = calling([0.1, ANSWER, tokens(120)], [0.1, "Never heard to its end, since the session closes.", tokens(1)])
    harness.caller.says("stop it now", 4.0, 5.0, final_at=5.2)
    harness.run(until=20.0)
    assert GOODBYE in said(harness)
    assert said(harness)[0] not in (ANSWER, GOODBYE)
    assert ended(harness)[0] == "budget_exceeded"


def test_a_limit_passed_in_the_middle_of_a_tool_loop_lets_the_answer_end() -> None:
    class Books(Agent):
        @function_tool
        async def book(self) -> str:
            """Book."""
            await anyio.sleep(1.0)
            return "booked"

    harness = calling([0.1, CALL, tokens(120)], [0.1, "It is booked.", tokens(1)], agent=Books("Help."))
    harness.run(until=20.0)
    assert said(harness) == ["It is booked.", GOODBYE]
    harness.expect_tools(("book", "booked"))
    assert ended(harness)[0] == "budget_exceeded"


def test_an_answer_that_does_not_end_is_cut_after_a_minute() -> None:
    class Books(Agent):
        @function_tool(timeout=600)
        async def book(self) -> str:
            """Book."""
            await anyio.sleep_forever()
            return ""

    harness = calling([0.1, CALL, tokens(120)], agent=Books("Help."))
    harness.run(until=100.0)
    assert said(harness) == [GOODBYE]
    reason, at = ended(harness)
    assert reason == "budget_exceeded"
    assert at == pytest.approx(64.5, abs=1.0)


# --- degrade


def test_a_function_that_raises_the_limit_keeps_the_call_and_the_next_one_is_not_called() -> None:
    called: list[str] = []

    async def allow_more(session: AgentSession[Any]) -> None:
        called.append("first")
        assert await session.budget.set_allocation(cost=1000)

    harness = calling(
        [0.1, ANSWER, tokens(120)], [0.1, "Yes.", tokens(1)], degrade=[allow_more, lambda session: called.append("2nd")]
    )
    harness.caller.says("and then", 6.0, 7.0, final_at=7.2)
    harness.run(until=12.0)
    assert (called, said(harness)) == (["first"], [ANSWER, "Yes."])
    assert ended(harness)[0] == "user_initiated"
    assert [name for name, *_ in told(harness)] == ["budget_warning", "budget_exceeded"]


def test_functions_that_do_not_help_are_called_one_after_the_other_before_the_goodbye() -> None:
    called: list[str] = []
    harness = calling(
        [0.1, ANSWER, tokens(120)], degrade=[lambda s: called.append(s.id), lambda s: called.append("2nd")]
    )
    harness.run(until=20.0)
    assert called == [harness.session.id, "2nd"]
    assert (said(harness), ended(harness)[0]) == ([ANSWER, GOODBYE], "budget_exceeded")


def test_a_function_that_raises_is_an_error_event_and_the_next_one_is_called() -> None:
    async def allow_more(session: AgentSession[Any]) -> None:
        await session.budget.set_allocation(cost=1000)

    def broken(session: AgentSession[Any]) -> None:
        raise KeyError("no such model")

    harness = calling([0.1, ANSWER, tokens(120)], degrade=[broken, allow_more]).expects_error("budget")
    harness.run(until=8.0)
    assert (said(harness), ended(harness)[0]) == ([ANSWER], "user_initiated")
    assert [event.source for event in harness.recording.of(ErrorOccurred)] == ["budget"]


def test_a_function_that_hangs_is_given_up_at_its_limit_and_the_call_goes_on_till_then() -> None:
    async def hangs(session: AgentSession[Any]) -> None:
        await anyio.sleep_forever()

    harness = calling([0.1, ANSWER, tokens(120)], [0.1, "Yes.", tokens(1)], degrade=[hangs]).expects_error("budget")
    harness.caller.says("and then", 6.0, 7.0, final_at=7.2)
    harness.run(until=40.0)
    assert said(harness) == [ANSWER, "Yes.", GOODBYE]
    assert ended(harness)[0] == "budget_exceeded"
    (error,) = harness.recording.of(ErrorOccurred)
    assert "degrade of the budget did not end within 10 s" in str(error.error)


def test_slow_answers_change_the_model_and_five_quick_ones_need_no_second_change() -> None:
    quick = ScriptedLLM(*_numbered("Quick", 5, 0.1))
    called: list[str] = []

    def faster(session: AgentSession[Any]) -> None:
        called.append("faster")
        _ = session.update_components(llm=quick)

    slow = _numbered("Slow", 5, 2.0)
    harness = calling(*slow, cost=-1, latency=2.0, degrade=[faster, lambda session: called.append("again")])
    for number in range(1, 10):
        harness.caller.says("go on", 10.0 * number, 10.0 * number + 1, final_at=10.0 * number + 1.2)
    harness.run(until=100.0)
    assert called == ["faster"]
    assert [name for name, *_ in told(harness)] == ["budget_warning", "budget_exceeded"]
    assert said(harness)[-1] == "Quick 4."
    assert ended(harness)[0] == "user_initiated"


def test_a_latency_that_stays_over_its_limit_never_ends_the_call() -> None:
    called: list[str] = []
    slow = _numbered("Slow", 12, 2.0)
    functions = [lambda session: called.append("first"), lambda session: called.append("second")]
    harness = calling(*slow, cost=-1, latency=1.0, degrade=functions)
    for number in range(1, 12):
        harness.caller.says("go on", 10.0 * number, 10.0 * number + 1, final_at=10.0 * number + 1.2)
    harness.run(until=120.0)
    assert called == ["first", "second"]
    names = [name for name, *_ in told(harness)]
    assert names == ["budget_warning", "budget_exceeded", "budget_exceeded"]
    assert ended(harness)[0] == "user_initiated"


# --- what counts


def test_tokens_of_an_answer_that_was_begun_ahead_and_thrown_away_count() -> None:
    wrong = ((2.0, "yellow hair"),)
    harness = calling([0.1, "Wrong.", tokens(70)], [0.1, ANSWER, tokens(50)], interims=wrong)
    harness.preemptive = True
    harness.run(until=20.0)
    assert told(harness)[-1] == ("budget_exceeded", "cost", 120.0, 100.0)
    assert (said(harness), ended(harness)[0]) == ([ANSWER, GOODBYE], "budget_exceeded")


def test_an_answer_that_is_cut_before_its_tokens_are_reported_counts_by_an_estimate() -> None:
    harness = calling([0.1, ANSWER, 8.0, tokens(70)], [0.1, "Yes.", tokens(5)])
    harness.caller.says("stop it now", 4.0, 5.0, final_at=5.2)

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(9.0)
        used = (await harness.session.budget.usage())["scripted"]
        if isinstance(harness.session.pipeline, RealtimePipeline):  # the model itself reports an answer that was cut
            assert (used.llm_input_tokens, used.llm_output_tokens, used.llm_estimated_tokens) == (5, 0, 0)
        else:
            instructions, words = 2, 4 + 3  # a token for each four bytes, and four for the message
            assert (used.llm_input_tokens, used.llm_output_tokens) == (instructions + words + 5, 13)
            assert used.llm_estimated_tokens == instructions + words + 13
        whole = harness.session.usage
        assert (whole.llm_output_tokens, whole.llm_estimated_tokens) == (
            used.llm_output_tokens,
            used.llm_estimated_tokens,
        )

    harness.run(scenario, until=12.0)
    assert said(harness)[-1] == "Yes."


def test_audio_tokens_of_a_model_that_speaks_have_their_own_price() -> None:
    used = Usage(input_tokens=5, input_audio_tokens=3, output_tokens=2, output_audio_tokens=2)
    model = ScriptedRealtimeModel([0.1, ANSWER, used])
    budget = BudgetOptions(cost=72, prices={"scripted": TOKEN}, goodbye=GOODBYE)
    harness = SessionHarness(Agent("Help."), model=model, options=SessionOptions(budget=budget))

    async def scenario(harness: SessionHarness) -> None:
        await harness.session.reply("Count.")
        assert await harness.session.budget.use() == {"cost": 72.0, "accuracy": None, "latency": None}
        usage = await harness.session.budget.usage()
        assert usage["scripted"].llm_input_audio_tokens == 3
        await harness.session.wait_closed()

    harness.run(scenario, until=20.0)
    assert told(harness)[-1] == ("budget_exceeded", "cost", 72.0, 72.0)
    assert ended(harness)[0] == "budget_exceeded"


def test_scores_below_the_accuracy_are_an_event_and_the_call_goes_on() -> None:
    harness = calling([0.1, ANSWER, tokens(1)], cost=-1, accuracy=0.7)

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(6.0)
        await harness.session.budget.update_use(accuracy=0.9)
        await harness.session.budget.update_use(accuracy=0.3)

    harness.run(scenario, until=8.0)
    assert [(name, kind) for name, kind, *_ in told(harness)] == [
        ("budget_warning", "accuracy"),
        ("budget_exceeded", "accuracy"),
    ]
    assert ended(harness)[0] == "user_initiated"


# --- another process


def test_a_limit_that_an_attached_memory_raises_in_time_keeps_the_call() -> None:
    store = InProcessStore(clock=VirtualClock())
    harness = calling([0.1, ANSWER, tokens(120)], [0.1, "Yes.", tokens(1)], memory={"store": store})
    harness.caller.says("and then", 7.0, 8.0, final_at=8.2)

    async def scenario(harness: SessionHarness) -> None:
        await harness.next(BudgetExceeded)
        async with Budget.attach(store, harness.session.id) as other:
            assert await other.set_allocation(cost=1000)

    harness.run(scenario, until=12.0)
    assert (said(harness), ended(harness)[0]) == ([ANSWER, "Yes."], "user_initiated")


def test_an_amount_that_an_attached_memory_reports_is_counted_once() -> None:
    store = InProcessStore(clock=VirtualClock())
    harness = calling([0.1, ANSWER, tokens(20)], memory={"store": store})

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(6.0)
        async with Budget.attach(store, harness.session.id) as other:
            await other.update_use(cost=85)
            assert (await other.use())["cost"] == 105.0
            await harness.session.wait_closed()
            assert (await other.use())["cost"] == 105.0
            assert await other.allocation() == {"cost": 100.0, "accuracy": -1.0, "latency": -1.0}

    harness.run(scenario, until=20.0)
    assert told(harness)[-1] == ("budget_exceeded", "cost", 105.0, 100.0)
    reason, at = ended(harness)
    assert reason == "budget_exceeded"
    assert at == pytest.approx(7.0 + 0.2 + 1.2, abs=1.1)
