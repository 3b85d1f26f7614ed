"""Faults that fail a test by themselves: errors of the application's code, a session closed by an error."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from vivavoce.agents import (
    Agent,
    AgentSession,
    ContentGuard,
    GuardedText,
    SessionOptions,
    ToolError,
    WakeUp,
    function_tool,
)
from vivavoce.agents.agent import CompletedTurn
from vivavoce.agents.events import SessionEvent, TurnCompleted, UserStateChanged
from vivavoce.agents.graphs import GraphOptions, StateGraph
from vivavoce.agents.testing import ScriptedLLM, SessionHarness, ToolCall
from vivavoce.agents.transports.local import VirtualSink
from vivavoce.pipelines.core.errors import ProviderError


class Clumsy(Agent):
    @function_tool
    async def book(self, day: str) -> str:
        """Book a table."""
        if day == "never":
            raise ValueError("no such day")
        raise ToolError("the house is full")

    async def on_user_turn_completed(self, turn: CompletedTurn) -> None:
        if turn.text == "break it":
            raise LookupError("my own mistake")


def typed(text: str, *steps: str | list[ToolCall]) -> SessionHarness:
    harness = SessionHarness(Clumsy("x"), ScriptedLLM(*steps))
    harness.caller.types(text, 1.0)
    return harness


def book(day: str) -> list[ToolCall]:
    return [ToolCall(call_id="c1", name="book", arguments=f'{{"day": "{day}"}}')]


def raises(event: SessionEvent) -> None:
    raise KeyError("handler's mistake")


def test_a_hook_that_raises_fails_the_test_and_says_how_to_expect_it() -> None:
    with pytest.raises(
        AssertionError,
        match=r"1 error\(s\) that the test does not expect; .*expects_error\('hook'\).*\n +1\.00 s  hook: Look",
    ):
        typed("break it", "Well.").run(until=3.0)


def test_a_tool_that_raises_fails_the_test() -> None:
    with pytest.raises(AssertionError, match="tool: ValueError: no such day"):
        typed("book", book("never"), "Sorry.").run(until=3.0)


def test_a_tool_that_answers_by_a_tool_error_fails_nothing() -> None:
    expect = typed("book", book("friday"), "Sorry.").run(until=3.0).expect
    expect.skip(1).tool_call("book").failed(contains="full")


def test_a_handler_that_raises_fails_the_test() -> None:
    async def scenario(harness: SessionHarness) -> None:
        harness.session.on(UserStateChanged, raises)

    harness = SessionHarness(Agent("x"))
    harness.caller.makes_noise(1.0, 2.0)
    with pytest.raises(AssertionError, match="handler: KeyError"):
        harness.run(scenario, until=4.0)


def raising_guard(given: GuardedText) -> None:
    raise KeyError("guard's mistake")


def wrong_guard(given: GuardedText) -> Any:
    return True


def guard_without_text() -> None:
    return None


@pytest.mark.parametrize(
    ("judge", "told"),
    [
        (raising_guard, 'guard: KeyError: "guard\'s mistake"'),
        (wrong_guard, "guard: ConfigurationError: needed a GuardVerdict or None .*, got True"),
        (guard_without_text, "guard: TypeError: .*takes 0 positional arguments"),
    ],
)
def test_a_guard_that_fails_fails_the_test(judge: Any, told: str) -> None:
    def guarded() -> SessionHarness:
        options = SessionOptions(guard=ContentGuard(judge=judge, caller=False))
        harness = SessionHarness(Agent("x"), ScriptedLLM("Hello there."), options=options)
        harness.caller.types("hello", 1.0)
        return harness

    with pytest.raises(AssertionError, match=told):
        guarded().run(until=4.0)
    guarded().expects_error("guard").run(until=4.0)


async def returns_text(session: AgentSession[Any]) -> str:
    return "Hello."


async def raising_body(session: AgentSession[Any]) -> None:
    raise KeyError("body's mistake")


def raising_condition(session: AgentSession[Any]) -> bool:
    raise KeyError("condition's mistake")


def graph_of(body: Any = None, condition: Any = None) -> SessionHarness:
    graph = StateGraph()
    one, two = graph.new_state("one", initial=True), graph.new_state("two")
    one.when_condition(condition or (lambda session: False)).go_to(two)
    if body is not None:
        one.body(body)
    options = SessionOptions(graph=GraphOptions(graph))
    return SessionHarness(Agent("x"), options=options)


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ({"body": returns_text}, "graph: ConfigurationError: a body must yield its text"),
        ({"body": raising_body}, 'graph: KeyError: "body\'s mistake"'),
        ({"condition": raising_condition}, 'graph: KeyError: "condition\'s mistake"'),
    ],
)
def test_code_of_a_conversation_graph_that_fails_fails_the_test(code: Any, told: str) -> None:
    with pytest.raises(AssertionError, match=told):
        graph_of(**code).run(until=3.0)
    graph_of(**code).expects_error("graph").run(until=3.0)


def test_an_error_that_is_expected_fails_nothing() -> None:
    typed("break it", "Well.").expects_error("hook", contains="My own mistake").run(until=3.0)
    typed("break it", "Well.").expects_error().run(until=3.0)


def test_an_expected_error_covers_no_other_one() -> None:
    harness = typed("break it", book("never"), "Sorry.").expects_error("hook")
    with pytest.raises(AssertionError, match=r"1 error\(s\).*expects_error\('tool'\)"):
        harness.run(until=3.0)


def test_an_expected_error_that_does_not_come_fails_the_test() -> None:
    with pytest.raises(AssertionError, match=r"expected an error \(source='tool'\); came instead: none"):
        typed("hello", "Well.").expects_error("tool").run(until=3.0)
    harness = typed("break it", "Well.").expects_error("hook", contains="another")
    with pytest.raises(AssertionError, match=r"\(source='hook', contains='another'\); came instead:\n.*my own mistake"):
        harness.run(until=3.0)


@pytest.mark.parametrize("is_expected", [True, False])
def test_a_session_that_closes_by_an_error_fails_the_test_unless_that_is_expected(is_expected: bool) -> None:
    harness = SessionHarness(Agent("x"))

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(1.0)
        harness.stt.fail(ProviderError("no such account", provider="scripted"))

    if is_expected:
        harness.expects_error("session", contains="no such account").run(scenario, until=2.0)
    else:
        with pytest.raises(AssertionError, match=r"session: closed by itself: .*no such account"):
            harness.run(scenario, until=2.0)


def test_a_failing_assertion_of_a_scenario_notes_that_the_session_had_closed_by_itself() -> None:
    harness = SessionHarness(Agent("x"), wake_up=WakeUp(after=2.0, repeat=1, then="close"))

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(20.0)
        raise AssertionError("mine")

    with pytest.raises(AssertionError, match="mine") as failed:
        harness.run(scenario)
    assert any("the session closed by itself: user_away" in note for note in failed.value.__notes__)
    with pytest.raises(AssertionError, match=r"came instead: nothing more\n(.*\n)+.*closed by itself: user_away"):
        harness.expect.next_message()


def test_a_session_that_the_test_closes_is_not_said_to_have_closed_by_itself() -> None:
    assert "closed" not in SessionHarness(Agent("x")).run(until=1.0).expect.conversation()


def test_an_event_that_the_close_makes_impossible_is_not_waited_for() -> None:
    harness = SessionHarness(Agent("x"), wake_up=WakeUp(after=2.0, repeat=1, then="close"))

    async def scenario(harness: SessionHarness) -> None:
        for _ in range(2):
            with pytest.raises(AssertionError, match="no 'turn_completed' came before the session closed"):
                await harness.next(TurnCompleted)
        assert harness.now < 10.0

    harness.run(scenario)


def test_what_was_played_is_readable_when_the_run_is_over() -> None:
    class Host(Agent):
        async def on_enter(self) -> None:
            await self.session.say("one two three")

    harness = SessionHarness(Host("x")).run(until=2.0)
    sink = harness.room.sink
    assert isinstance(sink, VirtualSink)
    assert sum(played.frame.duration for played in sink.frames()) == pytest.approx(0.6)
    assert len(sink.played()) == 0.6 * 24000 * 2
    harness.expect_played((0.2, 0.6))
    assert harness.now == 2.0


def test_a_scenario_may_go_on_beside_the_start() -> None:
    class Host(Agent):
        async def on_enter(self) -> None:
            await anyio.sleep(1.0)
            await self.session.say("one two three")

    seen: list[tuple[float, str]] = []

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(0.5)
        seen.append((harness.now, harness.session.agent_state.value))
        seen.append((await harness.started(), harness.session.agent_state.value))

    SessionHarness(Host("x")).run(scenario, waits_for_start=False)
    assert [(round(at, 6), state) for at, state in seen] == [(0.5, "starting"), (1.8, "idle")]


def test_a_start_that_fails_beside_a_scenario_fails_the_test() -> None:
    async def scenario(harness: SessionHarness) -> None:
        await harness.started()

    harness = SessionHarness(Agent("x"))
    harness.stt.fail_open(ProviderError("wrong key", provider="scripted"))
    with pytest.raises(ProviderError, match="wrong key"):
        harness.run(scenario, waits_for_start=False)


def test_a_session_that_the_application_closes_is_said_to_be_closed_by_it() -> None:
    async def scenario(harness: SessionHarness) -> None:
        await harness.session.close()

    conversation = SessionHarness(Agent("x")).run(scenario).expect.conversation()
    assert "0.00 s  the session was closed by the application: user_initiated" in conversation


def test_an_error_of_a_provider_is_shown_with_its_cause_once() -> None:
    with pytest.raises(AssertionError) as failed:
        typed("book", [ValueError("a slip")]).run(until=3.0).expect.skip(1).no_more()  # type: ignore[list-item]
    assert str(failed.value).count("a slip") == str(failed.value).count("turn failed") == 2
