"""A project of its own tests its agent with the public test kit, and nothing else of vivavoce's tests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import anyio
import pytest

from vivavoce.agents import Agent, AgentSession, ConversationFlow, RunContext, function_tool
from vivavoce.agents.events import TurnCompleted
from vivavoce.agents.testing import (
    ScriptedLLM,
    ScriptedRealtimeModel,
    ScriptedSTT,
    ScriptedTTS,
    ScriptedVAD,
    ScriptError,
    SessionHarness,
    run_virtual,
)
from vivavoce.pipelines import CascadingPipeline, FallbackSTT
from vivavoce.pipelines.core.errors import ProviderError
from vivavoce.pipelines.llm.tools import ToolCall


class Host(Agent):
    """The README's example."""

    def __init__(self) -> None:
        super().__init__("You take table bookings. Be brief.")

    @function_tool
    async def book(self, context: RunContext, day: str, people: int) -> str:
        """Book a table."""
        context.userdata.append((day, people))
        return f"booked: {day}, {people}"

    async def on_enter(self) -> None:
        await self.session.say("Hello, a table for when?")


def booking() -> ToolCall:
    return ToolCall(call_id="c1", name="book", arguments='{"day": "friday", "people": 4}')


def test_the_host_greets_at_once() -> None:
    SessionHarness(Host()).run(until=3.0).expect_history(("assistant", "Hello, a table for when?"))


def test_the_host_books_a_table() -> None:
    tables: list[tuple[str, int]] = []
    harness = SessionHarness(Host(), ScriptedLLM([booking()], "Done, see you on friday."), userdata=tables)
    harness.caller.says("friday for four please", 2.0, 3.5)
    harness.run(until=7.0)
    assert tables == [("friday", 4)]
    harness.expect_tools(("book", "booked: friday, 4"))
    harness.expect_history(
        ("assistant", "Hello, a table for when?"),
        ("user", "friday for four please"),
        ("assistant", "Done, see you on friday."),
    ).expect_outcomes("completed", "completed")
    assert harness.session.turns[-1].e2e_latency == pytest.approx(0.6)  # silence, model, voice


def test_the_greeting_can_be_interrupted() -> None:
    harness = SessionHarness(Host(), ScriptedLLM("For how many?"), tts=ScriptedTTS(emits_words=True))
    harness.caller.says("friday please", 0.4, 1.2)

    async def scenario(harness: SessionHarness) -> None:
        answer = await harness.next(TurnCompleted)
        assert answer.record.user_text == "friday please"

    harness.run(scenario)
    assert harness.messages[0] == ("assistant", "Hello, a table")


def test_a_scenario_reacts_to_what_happens() -> None:
    harness = SessionHarness(Host(), ScriptedLLM("For how many?", "Which name?"))

    async def scenario(harness: SessionHarness) -> None:
        harness.caller.says("a table for friday")
        await harness.next(TurnCompleted)
        harness.caller.types("four")
        turn = await harness.next(TurnCompleted)
        assert turn.record.heard_text == "Which name?"

    harness.run(scenario)
    assert [text for role, text in harness.messages if role == "user"] == ["a table for friday", "four"]


async def test_it_also_runs_in_a_loop_of_the_tests_own() -> None:
    async with SessionHarness(Agent("Be brief."), ScriptedLLM("Hi.")) as harness:
        await harness.session.reply("Greet.")
        assert harness.messages == [("assistant", "Hi.")]
    assert harness.close_report is not None
    assert harness.close_report.is_clean


def test_two_harnesses_share_one_virtual_loop() -> None:
    async def main() -> None:
        async with SessionHarness(Host()) as one, SessionHarness(Host()) as two:
            one.expect_history(("assistant", "Hello, a table for when?"))
            two.expect_history(("assistant", "Hello, a table for when?"))
            assert one.session.id != two.session.id

    run_virtual(main())


def test_expectations_that_fail_say_what_was_expected_and_what_came() -> None:
    harness = SessionHarness(Host()).run()
    with pytest.raises(AssertionError, match=r"history: expected .*good bye.*got .*Hello"):
        harness.expect_history(("assistant", "good bye"))
    with pytest.raises(AssertionError, match="states of the user"):
        harness.expect_states("user")
    with pytest.raises(AssertionError, match="played audio"):
        harness.expect_played((1.0, 1.0))
    with pytest.raises(AssertionError, match="tool calls"):
        harness.expect_tools(("book", ""))
    with pytest.raises(AssertionError, match="outcomes"):
        harness.expect_outcomes("failed")


def test_waiting_for_what_never_comes_fails_with_what_came_instead() -> None:
    async def scenario(harness: SessionHarness) -> None:
        with pytest.raises(AssertionError, match=r"no 'turn_completed' came within 5 s.*started"):
            await harness.next(TurnCompleted, limit=5.0)

    SessionHarness(Agent("x")).run(scenario)


def test_what_a_scenario_raises_reaches_the_test_and_the_session_is_closed() -> None:
    harness = SessionHarness(Agent("x"))

    async def scenario(harness: SessionHarness) -> None:
        raise LookupError("my own assertion")

    with pytest.raises(LookupError, match="my own assertion"):
        harness.run(scenario)
    assert harness.close_report is not None


def test_a_start_that_fails_reaches_the_test() -> None:
    harness = SessionHarness(Agent("x"))
    harness.stt.fail_open(ProviderError("wrong key", provider="scripted"))
    with pytest.raises(ProviderError, match="wrong key"):
        harness.run()


def test_a_mistake_in_the_script_reaches_the_test() -> None:
    harness = SessionHarness(Agent("x"))
    with pytest.raises(ValueError, match="a sound needs"):
        harness.caller.makes_noise(2.0, 1.0)
    harness.caller.is_recognised("before anybody listens", 0.0)
    with pytest.raises(ScriptError, match="needed an open stream"):
        harness.run(until=1.0)


@pytest.mark.parametrize("has_stt", [False, True])
def test_a_recogniser_that_is_not_in_the_test_s_pipeline_is_named(has_stt: bool) -> None:
    own = ScriptedSTT() if has_stt else None
    pipeline = CascadingPipeline(llm=ScriptedLLM("Hi."), stt=own, tts=ScriptedTTS(), vad=ScriptedVAD())
    harness = SessionHarness(Agent("x"), pipeline=pipeline)
    harness.caller.says("hello", 1.0, 2.0)
    with pytest.raises(ScriptError, match=r"the harness's stt is not in this pipeline; give it too: Session.*stt=stt"):
        harness.run(until=4.0)


def test_a_recogniser_of_the_test_s_pipeline_hears_the_caller() -> None:
    stt = ScriptedSTT()
    ears = FallbackSTT([stt, ScriptedSTT()])
    pipeline = CascadingPipeline(llm=ScriptedLLM("Hi."), stt=ears, tts=ScriptedTTS(), vad=ScriptedVAD())
    harness = SessionHarness(Agent("x"), stt=stt, pipeline=pipeline)
    harness.caller.says("hello", 1.0, 2.0)
    harness.run(until=4.0).expect.next_message("hello", role="user").next_message("Hi.").no_more()


@pytest.mark.parametrize("is_realtime", [False, True])
def test_a_script_that_has_run_out_fails_the_test_and_shows_the_conversation(is_realtime: bool) -> None:
    model = ScriptedRealtimeModel("Hi.") if is_realtime else None
    harness = SessionHarness(Agent("x"), ScriptedLLM("Hi."), model=model)

    async def scenario(harness: SessionHarness) -> None:
        await harness.user("hello")
        await harness.user("hello again")

    with pytest.raises(ScriptError, match=r"got request 2, .*\nthe conversation:\n(.*\n)+.*turn failed: .*request 2"):
        harness.run(scenario)


async def test_run_in_an_async_test_says_what_to_write_instead() -> None:
    with pytest.raises(RuntimeError, match=r"write `def` instead of `async def`, or `async with SessionHarness"):
        SessionHarness(Agent("x")).run(until=1.0)


def test_a_scenario_that_is_not_async_says_so() -> None:
    def scenario(harness: SessionHarness) -> None:
        harness.caller.types("hello")

    with pytest.raises(TypeError, match=r"a scenario is an async function of the harness, got .*: write `async def`"):
        SessionHarness(Agent("x")).run(scenario)  # type: ignore[arg-type]


def test_a_harness_runs_once() -> None:
    harness = SessionHarness(Agent("x")).run()
    with pytest.raises(RuntimeError, match="make another one"):
        harness.run()


def test_a_task_that_outlives_the_session_is_named() -> None:
    tasks: list[asyncio.Task[None]] = []

    async def scenario(harness: SessionHarness) -> None:
        tasks.append(asyncio.create_task(anyio.sleep(1000.0), name="forgotten"))

    with pytest.raises(AssertionError, match="forgotten"):
        SessionHarness(Agent("x")).run(scenario)
    assert tasks[0].cancelled()  # by the end of the loop


def test_the_sessions_type_is_the_public_one() -> None:
    async def scenario(harness: SessionHarness) -> None:
        assert isinstance(harness.session, AgentSession)

    SessionHarness(Agent("x")).run(scenario)


def test_a_long_script_is_played_and_read_word_by_word() -> None:
    """Each expectation read the whole recording again: time grew with the square of the script."""
    turns = 60
    look_up = [ToolCall(call_id="c1", name="book", arguments='{"day": "friday", "people": 4}')]
    tables: list[tuple[str, int]] = []
    harness = SessionHarness(Host(), ScriptedLLM().when("table", look_up, "Done."), userdata=tables)
    for turn in range(turns):
        harness.caller.says("a table please", 10.0 * turn + 4.0, 10.0 * turn + 5.0)
    expect = harness.run(until=10.0 * turns + 5.0).expect.skip(1)
    for turn in range(turns):
        expect.next_message(role="user").tool_call("book", people=4).next_message("Done.")
        expect.silent_between(10.0 * turn + 8.0, 10.0 * turn + 10.0)
    expect.no_more()


def test_a_conversation_flow_is_given_to_the_harness_as_to_a_session() -> None:
    class Flow(ConversationFlow):
        async def run(self, transcript: str) -> AsyncIterator[str]:
            yield f"You said {transcript}."

    harness = SessionHarness(Agent("Help."), conversation_flow=Flow())
    harness.caller.says("hello", 1.0, 1.6)
    harness.run(until=4.0).expect.skip(1).next_message("You said hello.").no_more()
