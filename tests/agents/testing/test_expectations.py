"""`harness.expect` finds messages, calls and handoffs in order, and a failure shows the actual conversation."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from dataclasses import replace

import anyio
import pytest

from vivavoce.agents import Agent, StopResponse, function_tool
from vivavoce.agents.agent import CompletedTurn
from vivavoce.agents.events import Closed
from vivavoce.agents.tasks import AskYesOrNo
from vivavoce.agents.testing import ScriptedLLM, ScriptedTTS, SessionHarness, ToolCall, TTSFault
from vivavoce.pipelines.core.errors import ProviderError
from vivavoce.pipelines.llm.base import LLM, Done, GenerateRequest, LLMEvent, TextDelta


class Billing(Agent):
    async def on_enter(self) -> None:
        await self.session.say("Billing here, hello.")


class Desk(Agent):
    """Books, and hands over to billing."""

    @function_tool
    async def book(self, day: str, people: int | None = None) -> str:
        """Book a table."""
        if day == "never":
            raise ValueError("no such day")
        return f"booked {day}"

    @function_tool
    async def to_billing(self) -> Agent:
        """Hand over."""
        return Billing("You bill.")

    async def on_enter(self) -> None:
        await self.session.say("Hello, Corner Table.")

    async def on_user_turn_completed(self, turn: CompletedTurn) -> None:
        if turn.text == "secret":
            raise StopResponse


def book(day: str = "friday", call_id: str = "c1") -> ToolCall:
    return ToolCall(call_id=call_id, name="book", arguments=f'{{"day": "{day}"}}')


HAND_OVER = ToolCall(call_id="c9", name="to_billing", arguments="{}")


def conversation() -> SessionHarness:
    """Greeting; the user at 1.0 to 2.0; a booking, an answer at 2.6 to 3.2; then billing takes over."""
    harness = SessionHarness(Desk("Be brief."), ScriptedLLM([book()], "Booked for friday.", [HAND_OVER]))
    harness.caller.says("friday please", 1.0, 2.0)
    harness.caller.says("the bill please", 4.0, 5.0)
    return harness.run(until=8.0)


# --- in order


def test_a_conversation_reads_from_the_beginning_to_its_end() -> None:
    expect = conversation().expect
    expect.next_message("Hello, Corner Table.", role="assistant").interrupted(False).ended("completed")
    expect.next_message(role="user", contains="Friday").at(2.4)
    expect.tool_call("book", day="friday").returned("booked friday").next_message(matches=r"^Booked").answered_within(
        0.6
    )
    expect.next_message(role="user").tool_call("to_billing").handoff(to="Billing", by="Desk").next_message(
        role="assistant", contains="billing HERE"
    ).answered_within(0.6).no_more()


def test_states_are_read_in_order_by_name_and_by_time() -> None:
    expect = conversation().expect
    expect.agent_went("starting", ("speaking", 0.2), "idle").agent_went(("listening", 1.0), "thinking", "speaking")
    expect.user_went(("listening", 0.2), "idle", ("speaking", 1.0), ("idle", 2.0))
    with pytest.raises(AssertionError, match=r"expected the agent to go next to \['thinking'\]\ncame instead: idle at"):
        expect.agent_went("thinking")
    with pytest.raises(AssertionError, match=r"\(\('?idle'?, 3\.0\)|\[\('idle', 3\.0\)\]"):
        expect.agent_went(("idle", 3.0))
    expect.agent_went(("idle", 3.0), tolerance=0.3)


def test_what_is_left_can_be_searched_without_passing_it() -> None:
    expect = conversation().expect
    expect.contains_message(role="user", contains="bill")
    expect.contains_tool_call("book", day="friday").returned(contains="Friday")
    expect.contains_handoff(to="Billing")
    expect.no_tool_call("book", day="monday").no_tool_call("refund")
    expect.skip(2).tool_call("book").skip_all().no_more().no_tool_call()


def test_a_tool_that_fails_is_told_from_one_that_returns() -> None:
    harness = SessionHarness(Desk("x"), ScriptedLLM([book("never"), book(call_id="c2")], "Sorry."))
    harness.caller.says("never please", 1.0, 2.0)
    expect = harness.expects_error("tool").run(until=5.0).expect.skip(2)
    call = expect.tool_call("book", day="never").failed()
    with pytest.raises(AssertionError, match="expected 'book' to return"):
        call.returned()
    with pytest.raises(AssertionError, match=r"expected 'book' to fail \(contains='no day'\)"):
        call.failed(contains="no day")
    with pytest.raises(AssertionError, match="expected 'book' to fail"):
        expect.tool_call("book", day="friday").failed()


def test_calls_with_the_same_id_keep_what_each_came_to() -> None:
    harness = SessionHarness(Desk("x"), ScriptedLLM([book()], "Booked.", [book("monday")], "Booked too."))
    harness.caller.says("friday please", 1.0, 2.0)
    harness.caller.says("monday please", 6.0, 7.0)
    expect = harness.run(until=11.0).expect
    expect.contains_tool_call("book", day="friday").returned("booked friday")
    expect.contains_tool_call("book", day="monday").returned("booked monday")


def test_an_interrupted_message_and_its_outcome() -> None:
    harness = SessionHarness(Desk("x"), ScriptedLLM("one two three four five six seven eight nine ten", "Yes?"))
    harness.caller.types("go", 1.0)
    harness.caller.says("stop it now", 1.6, 2.4)
    expect = harness.run(until=5.0).expect.skip(2)
    expect.next_message(role="assistant", contains="one two").interrupted().ended("interrupted")
    expect.next_message(role="user").next_message("Yes?").no_more()


# --- the text of a failure


Expectation = Callable[[SessionHarness], object]


@pytest.mark.parametrize(
    ("fails", "told"),
    [
        (
            lambda h: h.expect.next_message(role="user", contains="friday"),
            r"expected a message \(role='user', contains='friday'\)\ncame instead: assistant: 'Hello, Corner Table.'",
        ),
        (
            lambda h: h.expect.tool_call("book", day="monday"),
            r"expected a tool call book\(day='monday'\)\ncame instead",
        ),
        (
            lambda h: h.expect.skip(2).tool_call("book", day="monday"),
            r"came instead: tool call book\(day='friday'\) ->",
        ),
        (lambda h: h.expect.skip(2).tool_call("book", people=None), r"expected a tool call book\(people=None\)"),
        (lambda h: h.expect.handoff(to="Sales"), r"expected a handoff \(to='Sales'\)"),
        (lambda h: h.expect.contains_handoff(to="Sales"), "in the rest\ncame instead: none like it"),
        (lambda h: h.expect.no_tool_call("book"), r"expected no tool call book\(\)\ncame instead: tool call book\("),
        (lambda h: h.expect.no_more(), "expected nothing more\ncame instead: 8 more, first assistant"),
        (lambda h: h.expect.skip(9), "expected 9 more to skip\ncame instead: 8"),
        (lambda h: h.expect.skip_all().next_message(), "expected a message\ncame instead: nothing more"),
        (lambda h: h.expect.next_message().interrupted(), "expected it cut short"),
        (lambda h: h.expect.next_message().at(1.0), r"expected it at 1 s, ± 0\.02\ncame instead: .* at 0\.8 s"),
        (
            lambda h: h.expect.next_message().ended("failed"),
            "expected the outcome 'failed' .*\ncame instead: completed",
        ),
        (lambda h: h.expect.next_message().answered_within(1), "no user turn that was answered audibly"),
        (lambda h: h.expect.skip(3).next_message().answered_within(0.3), r"came instead: 0\.600 s"),
    ],
)
def test_a_failure_says_what_came_instead(fails: Expectation, told: str) -> None:
    harness = conversation()
    with pytest.raises(AssertionError, match=told):
        fails(harness)


def test_a_failure_shows_the_conversation_and_passes_nothing_by() -> None:
    expect = conversation().expect.skip(1)
    with pytest.raises(AssertionError) as failed:
        expect.tool_call("book")
    lines = str(failed.value).splitlines()
    assert lines[2:6] == [
        "the conversation:",
        "    1.    0.80 s  assistant: 'Hello, Corner Table.'",
        ">   2.    2.40 s  user: 'friday please'",
        "    3.    2.40 s  tool call book(day='friday') -> 'booked friday'",
    ]
    expect.next_message(role="user")


def test_nothing_at_all_is_said_to_be_nothing() -> None:
    harness = SessionHarness(Agent("x"))
    with pytest.raises(AssertionError, match=r"came instead: nothing more\n.*\n  \(nothing was said or done\)"):
        harness.expect.next_message()
    harness.run(until=1.0).expect.no_more()


# --- turn by turn


def test_the_user_types_and_the_answer_is_expected_next() -> None:
    harness = SessionHarness(Desk("x"), ScriptedLLM([book()], "Booked.", "Bye."))

    async def scenario(harness: SessionHarness) -> None:
        answer = await harness.user("friday please")
        answer.tool_call("book", day="friday").next_message("Booked.").no_more()
        (await harness.user("goodbye")).next_message("Bye.").no_more()

    harness.run(scenario).expect_outcomes("completed", "completed", "completed")


def test_the_user_speaks_and_the_new_agent_s_greeting_is_waited_for() -> None:
    harness = SessionHarness(Desk("x"), ScriptedLLM([HAND_OVER]))

    async def scenario(harness: SessionHarness) -> None:
        answer = await harness.user("the bill please", spoken=True)
        answer.tool_call("to_billing").handoff(to="Billing").next_message(contains="hello").no_more()
        (_, state, at) = harness.recording.states()[-1]
        assert (state, at) == ("idle", 2.9)
        assert harness.now == pytest.approx(2.9)

    harness.run(scenario)
    assert ("user", "speaking") in [(who, state) for who, state, _ in harness.states]


def test_a_turn_that_is_dropped_is_followed_by_nothing() -> None:
    async def scenario(harness: SessionHarness) -> None:
        (await harness.user("secret")).no_more()

    SessionHarness(Desk("x")).run(scenario)


def test_a_turn_that_interrupts_another_waits_for_its_own_answer() -> None:
    harness = SessionHarness(Desk("x"), ScriptedLLM("one two three four five six seven eight", "Stopped."))
    harness.caller.types("count", 1.0)

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(2.0)
        (await harness.user("stop")).next_message("Stopped.").no_more()

    harness.run(scenario)


def test_an_agent_that_hangs_up_ends_the_wait() -> None:
    class Short(Desk):
        async def on_user_turn_completed(self, turn: CompletedTurn) -> None:
            await self.session.leave()

    async def scenario(harness: SessionHarness) -> None:
        (await harness.user("bye")).no_more()

    SessionHarness(Short("x")).run(scenario)


def test_a_turn_without_an_end_fails_at_the_limit() -> None:
    class Stubborn(Desk):
        async def on_user_turn_completed(self, turn: CompletedTurn) -> None:
            await anyio.sleep(8.0)

    async def scenario(harness: SessionHarness) -> None:
        with pytest.raises(AssertionError, match=r"no end came within 3 s: the agent is thinking.* 1 speech"):
            await harness.user("hello", limit=3.0)

    SessionHarness(Stubborn("x"), ScriptedLLM("Hi.")).run(scenario, until=15.0)


def test_a_failed_turn_is_an_end_too_and_in_the_way_of_what_is_expected() -> None:
    harness = SessionHarness(Desk("x"), ScriptedLLM([ProviderError("overloaded", provider="scripted")], "Here I am."))

    async def scenario(harness: SessionHarness) -> None:
        expect = await harness.user("hello")
        with pytest.raises(
            AssertionError, match=r"expected nothing more\ncame instead: 1 more, first turn failed: llm:"
        ):
            expect.no_more()
        with pytest.raises(AssertionError, match=r"expected a failure \(contains='lost'\)\ncame instead: turn failed"):
            expect.failure(contains="lost")
        expect.failure(contains="Overloaded").no_more()
        (await harness.user("hello?")).next_message("Here I am.").no_more()

    harness.run(scenario).expect_outcomes("completed", "failed", "completed")
    with pytest.raises(
        AssertionError, match=r"outcomes: expected .*\nthe conversation:\n(.*\n)+.*turn failed: llm: Prov"
    ):
        harness.expect_outcomes()


def test_a_say_that_fails_stands_where_it_was_to_be_heard() -> None:
    no_voice = ProviderError("no voice", provider="scripted")
    harness = SessionHarness(Desk("x"), tts=ScriptedTTS(faults={0: TTSFault("before", no_voice)}))
    harness.run(until=2.0).expect.failure(contains="no voice").no_more()


def test_a_session_that_ends_by_an_error_says_so() -> None:
    harness = SessionHarness(Agent("x"))

    async def scenario(harness: SessionHarness) -> None:
        harness.stt.fail(ProviderError("no such account", provider="scripted"))
        await harness.next(Closed)
        harness.expect.failure(contains="no such account")

    harness.expects_error("session").run(scenario)


def test_an_error_that_fails_no_turn_is_shown_below_the_conversation() -> None:
    class Broken(Agent):
        async def on_user_turn_completed(self, turn: CompletedTurn) -> None:
            raise LookupError("my own mistake")

    harness = SessionHarness(Broken("x"), ScriptedLLM("Hello."))
    harness.caller.types("hi", 1.0)
    expect = harness.expects_error("hook").run(until=3.0).expect.next_message("hi").next_message("Hello.")
    with pytest.raises(AssertionError, match=r"errors besides:\n +1.00 s  hook: LookupError: my own mistake$"):
        expect.next_message()


# --- calls that run


class Slow(Agent):
    """Its tool takes 4 s."""

    @function_tool
    async def look_up(self, day: str) -> str:
        """Look a day up."""
        await anyio.sleep(4.0)
        return f"free on {day}"


def test_a_call_that_still_runs_is_a_call_and_stays_passed_when_it_has_settled() -> None:
    looks_up = ToolCall(call_id="c1", name="look_up", arguments='{"day": "friday"}')
    harness = SessionHarness(Slow("x"), ScriptedLLM(["One moment.", looks_up], "Friday is free."))

    async def scenario(harness: SessionHarness) -> None:
        harness.caller.types("is friday free")
        await harness.until(2.0)
        expect = harness.expect.skip_user()
        with pytest.raises(AssertionError, match=r"came instead: tool call look_up\(day='friday'\) -> still runs"):
            expect.no_tool_call("look_up")
        call = expect.next_message("One moment.").tool_call("look_up", day="friday")
        with pytest.raises(AssertionError, match="expected 'look_up' to return"):
            call.returned()
        await harness.until(8.0)
        expect.next_message("Friday is free.").no_more()

    harness.run(scenario)


def test_calls_with_one_id_that_run_one_after_the_other_are_two() -> None:
    def looks_up(day: str) -> list[ToolCall]:
        return [ToolCall(call_id="same", name="look_up", arguments=f'{{"day": "{day}"}}')]

    harness = SessionHarness(Slow("x"), ScriptedLLM(looks_up("friday"), looks_up("monday"), "Both are free."))

    async def scenario(harness: SessionHarness) -> None:
        harness.caller.types("friday or monday")
        await harness.until(5.0)
        expect = harness.expect.skip_user()
        expect.tool_call("look_up", day="friday").returned("free on friday").tool_call(
            "look_up", day="monday"
        ).no_more()
        await harness.until(12.0)
        expect.next_message("Both are free.").no_more()

    harness.run(scenario)


class Shop(Agent):
    """Its tool asks the caller twice."""

    @function_tool
    async def order(self) -> str:
        """Order."""
        return f"{await AskYesOrNo('Sure?')}, {await AskYesOrNo('Really?')}"


def test_a_call_that_began_in_an_earlier_exchange_is_found_in_the_one_of_its_result() -> None:
    order = ToolCall(call_id="c1", name="order", arguments="{}")
    harness = SessionHarness(Shop("x"), ScriptedLLM([order], "Done.", [replace(order, call_id="c2")]))

    async def scenario(harness: SessionHarness) -> None:
        call = (await harness.user("order")).tool_call("order")
        expect = await harness.user("yes")
        with pytest.raises(AssertionError, match="came instead: tool call order.* still runs"):
            expect.contains_tool_call("order").returned("True, True")
        expect.skip_all().no_tool_call().no_more()
        expect = await harness.user("no")
        call.returned("True, False")
        expect.contains_tool_call("order").returned("True, False")
        expect.no_tool_call().handoff(to=Shop).next_message("Done.").no_more()
        expect = await harness.user("order again")
        with pytest.raises(AssertionError, match="came instead: tool call order.* still runs"):
            expect.contains_tool_call("order").returned()

    harness.run(scenario)


# --- handoffs by class


def test_a_handoff_is_expected_by_class_or_by_id() -> None:
    expect = conversation().expect
    expect.contains_handoff(to=Billing)
    with pytest.raises(AssertionError, match=r"expected a handoff \(to='Desk'\) in the rest"):
        expect.contains_handoff(to=Desk)
    expect.skip(6).handoff(to=Billing, by=Desk)


class Pharmacist(Agent):
    def __init__(self) -> None:
        super().__init__("You are the pharmacist.", id="pharmacist")

    @function_tool
    async def to_counter(self) -> Agent:
        """Hand over to the counter."""
        return Agent("You answer the phone.", id="Pharmacist")


def test_a_handoff_by_class_finds_an_agent_with_an_id_of_its_own() -> None:
    class Phone(Agent):
        @function_tool
        async def to_pharmacist(self) -> Agent:
            """Hand over to the pharmacist."""
            return Pharmacist()

    async def scenario(harness: SessionHarness) -> None:
        (await harness.user("side effects?")).contains_handoff(to=Pharmacist)
        harness.expect.tool_call("to_pharmacist").handoff(to=Pharmacist, by=Phone)
        expect = await harness.user("back please")
        with pytest.raises(AssertionError, match=r"expected a handoff \(to='Pharmacist'\) in the rest"):
            expect.contains_handoff(to=Pharmacist)  # the id of the other agent is no class
        expect.tool_call("to_counter").handoff(to="Pharmacist", by=Pharmacist)

    there = ToolCall(call_id="1", name="to_pharmacist", arguments="{}")
    back = ToolCall(call_id="2", name="to_counter", arguments="{}")
    SessionHarness(Phone("x", id="phone"), ScriptedLLM([there], "Hello.", [back], "Hello.")).run(scenario)


class Parrot(LLM):
    """A model that is not ours."""

    async def generate(self, request: GenerateRequest) -> AsyncGenerator[LLMEvent, None]:
        yield TextDelta(request.context.messages("user")[-1].content)
        yield Done()


def test_the_agent_runs_on_any_model() -> None:
    async def scenario(harness: SessionHarness) -> None:
        (await harness.user("polly")).next_message("polly").no_more()
        assert harness.llm.requests == []

    SessionHarness(Agent("x"), Parrot()).run(scenario)
