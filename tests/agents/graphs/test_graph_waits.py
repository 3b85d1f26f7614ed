"""Who waits for whom around the body of a graph's state, in virtual time: answers, speech, tools, caller, close."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any

import anyio
import pytest

from kit.graphs import RealtimeHarness, booking, graph_harness, way
from vivavoce.agents import Agent, AgentSession, CompletedTurn, SpeechLimits, function_tool
from vivavoce.agents.events import ErrorOccurred
from vivavoce.agents.graphs import Intent, IntentMatch, PatternIntents, StateGraph
from vivavoce.agents.tasks import AgentTask
from vivavoce.agents.testing import ScriptedLLM, SessionHarness, ToolCall
from vivavoce.pipelines.llm.chat_context import ChatContext

BOTH = pytest.mark.parametrize("kind", [SessionHarness, RealtimeHarness], ids=["cascade", "realtime"])


class Desk(Agent):
    """Has a tool."""

    @function_tool
    async def count(self) -> str:
        "Count."
        await anyio.sleep(0.3)
        return "1"


def counts() -> list[Any]:
    """A step of the model that calls the tool."""
    return [ToolCall(call_id="call_1", name="count", arguments="{}")]


class Slow(PatternIntents):
    """Takes 5 s."""

    async def classify(self, text: str, intents: Sequence[Intent], history: ChatContext) -> IntentMatch | None:
        await anyio.sleep(5.0)
        return await super().classify(text, intents, history)


def two_states(intents: PatternIntents) -> StateGraph:
    """Two states, and an intent between them."""
    graph = StateGraph(intents)
    one, two = graph.new_state("one", initial=True), graph.new_state("two")
    one.when_intent_matched(graph.new_intent("book", ["book a table"])).go_to(two)
    return graph


@BOTH
def test_a_body_outside_of_turns_has_the_limit_of_hooks_only(kind: type[SessionHarness]) -> None:
    graph = StateGraph()
    state = graph.new_state("only", initial=True)

    @state.body
    async def greet(session: AgentSession[Any]) -> AsyncIterator[str]:
        yield "Hello. "
        await anyio.sleep(12.0)
        yield "You are welcome."

    harness = graph_harness(graph, kind=kind, speech=SpeechLimits(hook_timeout=30.0))
    harness.run(until=18.0)

    assert harness.messages == [("assistant", "Hello. You are welcome.")]


@BOTH
def test_a_body_outside_of_turns_that_hangs_behind_its_text_fails_and_leaves_the_floor(
    kind: type[SessionHarness],
) -> None:
    graph = StateGraph()
    one, two = graph.new_state("one", initial=True), graph.new_state("two")
    one.when_failed().go_to(two)

    @one.body
    async def greet(session: AgentSession[Any]) -> AsyncIterator[str]:
        yield "Hello. "
        await anyio.sleep_forever()

    @two.body
    async def sorry(session: AgentSession[Any]) -> AsyncIterator[str]:
        yield "Sorry."

    harness = graph_harness(graph, kind=kind, speech=SpeechLimits(hook_timeout=4.0))

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(3.0)
        await harness.session.say("Second words.")
        assert harness.now < 8.0

    harness.expects_error("graph").run(scenario, until=12.0)

    errors = [(event.source, type(event.error)) for event in harness.recording.of(ErrorOccurred)]
    assert errors == [("graph", TimeoutError)]
    assert way(harness) == ["one", "two"]
    assert sorted(text.strip() for _, text in harness.messages) == ["Hello.", "Second words.", "Sorry."]


@BOTH
def test_a_body_that_begins_behind_an_interrupted_one_speaks_after_the_caller(kind: type[SessionHarness]) -> None:
    graph = booking()
    _, details, _, done = graph.states
    last = graph.new_state("last")

    @details.body
    async def talk(session: AgentSession[Any]) -> AsyncIterator[str]:
        for _ in range(20):
            yield "There are very many tables on all days of this week. "
            await anyio.sleep(0.5)

    @last.body
    async def ask(session: AgentSession[Any]) -> AsyncIterator[str]:
        yield "For which day?"

    details.when_condition(lambda session: session.memory.private.get("full") is None).go_to(last)
    last.when_intent_matched(graph.intents[-1]).go_to(done)
    harness = graph_harness(graph, ScriptedLLM("Fine, monday."), kind=kind)
    harness.caller.says("book a table", 3.0, 4.0)
    harness.caller.says("please stop that at once", 6.0, 7.5)
    harness.run(until=14.0)

    assert way(harness) == ["greeting", "details", "last"]
    assert [text for _, text in harness.messages][-3:] == [
        "please stop that at once",
        "For which day?",
        "Fine, monday.",
    ]


# --- the close


@BOTH
def test_the_close_asks_no_model_for_a_turn_that_is_judged(kind: type[SessionHarness]) -> None:
    llm = ScriptedLLM("Fine.")
    harness = graph_harness(two_states(Slow()), llm, kind=kind)
    harness.caller.says("book a table", 1.0, 2.0)
    harness.run(until=4.0)

    assert llm.requests == []
    assert harness.close_report is not None
    assert harness.close_report.is_clean
    assert harness.close_report.seconds < 1.0


def test_the_close_asks_no_model_for_a_tool_that_waits_for_the_graph() -> None:
    graph = StateGraph()
    one, two = graph.new_state("one", initial=True), graph.new_state("two")
    one.when_tool_called("count").go_to(two)

    @two.body
    async def wait(session: AgentSession[Any]) -> None:
        await anyio.sleep(5.0)

    llm = ScriptedLLM(counts(), "One guest.")
    harness = graph_harness(graph, llm, agent=Desk("Help."))
    harness.caller.says("how many are we", 1.0, 2.0)
    harness.run(until=4.0)

    assert way(harness) == ["one", "two"]
    assert len(llm.requests) == 1
    assert harness.close_report is not None
    assert harness.close_report.is_clean


@BOTH
def test_a_reply_that_a_body_awaits_comes_before_the_answer_that_waits_for_the_body(kind: type[SessionHarness]) -> None:
    graph = StateGraph(PatternIntents())
    one, two = graph.new_state("one", initial=True), graph.new_state("two")
    one.after(1.0).go_to(two)
    two.when_intent_matched(graph.new_intent("x", ["something else"])).go_to(one)

    @two.body
    async def ask(session: AgentSession[Any]) -> None:
        await session.reply("Ask for the day.")

    harness = graph_harness(graph, ScriptedLLM("For which day?", "Fine, monday."), kind=kind)
    harness.caller.says("on monday", 0.5, 2.0)
    harness.run(until=8.0)

    assert harness.messages == [
        ("user", "on monday"),
        ("assistant", "For which day?"),
        ("assistant", "Fine, monday."),
    ]


@BOTH
def test_a_body_may_await_a_reply_that_calls_a_tool(kind: type[SessionHarness]) -> None:
    graph = two_states(PatternIntents())

    @graph.states[1].body
    async def ask(session: AgentSession[Any]) -> AsyncIterator[str]:
        await session.reply("Count the guests.")
        yield "For when?"

    harness = graph_harness(graph, ScriptedLLM(counts(), "One guest."), agent=Desk("Help."), kind=kind)
    harness.caller.says("book a table", 1.0, 2.0)
    harness.run(until=8.0)

    assert [text for _, text in harness.messages] == ["book a table", "One guest.", "For when?"]


def test_a_hook_of_a_turn_may_await_a_reply_that_calls_a_tool() -> None:
    class Hooked(Desk):
        async def on_user_turn_completed(self, turn: CompletedTurn) -> None:
            await self.session.reply("Count the guests.")

    harness = SessionHarness(Hooked("Help."), ScriptedLLM(counts(), "One guest.", "For when?"))
    harness.caller.says("book a table", 1.0, 2.0)
    harness.run(until=8.0)

    assert [text for _, text in harness.messages] == ["book a table", "One guest.", "For when?"]


@BOTH
def test_speech_that_a_body_awaits_comes_before_an_answer_that_waits_already(kind: type[SessionHarness]) -> None:
    graph = two_states(PatternIntents())
    one, two = graph.states
    one.when_event("user_transcript").go_to(two)

    @two.body
    async def ask(session: AgentSession[Any]) -> AsyncIterator[str]:
        yield "Hello. "
        await anyio.sleep(0.8)
        yield "Welcome. "
        await session.say("One moment.")
        await session.reply("Count the guests.")

    harness = graph_harness(graph, ScriptedLLM(counts(), "One guest.", "Fine."), agent=Desk("Help."), kind=kind)
    harness.caller.says("hello there", 0.1, 0.5, interims=[(0.4, "hello")])
    harness.run(until=12.0)

    said = [text.strip() for role, text in harness.messages if role == "assistant"]
    assert said == ["Hello. Welcome.", "One moment.", "One guest.", "Fine."]


class Thinking(Desk):
    """Takes its time before each answer."""

    async def on_user_turn_completed(self, turn: CompletedTurn) -> None:
        await anyio.sleep(1.0)


@BOTH
def test_speech_that_a_body_awaits_comes_before_an_answer_whose_hook_runs(kind: type[SessionHarness]) -> None:
    graph = two_states(PatternIntents())
    graph.states[0].after(1.5).go_to(graph.states[1])

    @graph.states[1].body
    async def ask(session: AgentSession[Any]) -> None:
        await session.say("One moment.")

    harness = graph_harness(graph, ScriptedLLM("Fine."), agent=Thinking("Help."), kind=kind)
    harness.caller.says("hello there", 0.1, 0.8)
    harness.run(until=12.0)

    assert [text for role, text in harness.messages if role == "assistant"] == ["One moment.", "Fine."]


class Ask(AgentTask[str]):
    """Asks for a name."""

    async def on_enter(self) -> None:
        await self.session.say("Your name?")
        self.complete("Bob")


@BOTH
def test_a_task_that_a_body_awaits_comes_before_an_answer_that_waits_already(kind: type[SessionHarness]) -> None:
    graph = two_states(PatternIntents())
    graph.states[0].after(1.5).go_to(graph.states[1])

    @graph.states[1].body
    async def ask(session: AgentSession[Any]) -> AsyncIterator[str]:
        yield f"Thank you, {await Ask('Ask.')}."

    harness = graph_harness(graph, ScriptedLLM("Fine."), agent=Thinking("Help."), kind=kind)
    harness.caller.says("hello there", 0.1, 0.8)
    harness.run(until=12.0)

    said = [text for role, text in harness.messages if role == "assistant"]
    assert said == ["Your name?", "Thank you, Bob.", "Fine."]


# --- longer than the limit of a judgement


@BOTH
def test_an_answer_that_was_not_judged_in_time_waits_for_no_body(kind: type[SessionHarness]) -> None:
    class Slower(PatternIntents):
        async def classify(self, text: str, intents: Sequence[Intent], history: ChatContext) -> IntentMatch | None:
            await anyio.sleep(40.0)
            return await super().classify(text, intents, history)

    graph = two_states(Slower())
    graph.states[0].after(34.0).go_to(graph.states[1])

    @graph.states[1].body
    async def tell(session: AgentSession[Any]) -> AsyncIterator[str]:
        yield "We close soon."

    llm = ScriptedLLM("Fine.", delay=4.0)
    harness = graph_harness(graph, llm, kind=kind, speech=SpeechLimits(hook_timeout=60.0))
    harness.expects_error("graph", contains="did not judge a turn within 30 s")
    harness.caller.says("hello there", 1.0, 2.0)
    harness.run(until=45.0)

    assert [text for role, text in harness.messages if role == "assistant"] == ["Fine.", "We close soon."]


class AskLong(AgentTask[str]):
    """Asks for a name, and has it after 40 s."""

    async def on_enter(self) -> None:
        await self.session.say("Your name?")
        await anyio.sleep(40.0)
        self.complete("Bob")


@BOTH
def test_the_words_of_the_caller_wait_for_a_long_task_of_a_body(kind: type[SessionHarness]) -> None:
    graph = two_states(PatternIntents())
    one, two = graph.states
    one.after(1.5).go_to(two)
    two.when_intent_matched(graph.intents[0]).go_to(graph.new_state("three"))

    @two.body
    async def ask(session: AgentSession[Any]) -> AsyncIterator[str]:
        yield f"Thank you, {await AskLong('Ask.')}."

    harness = graph_harness(
        graph, ScriptedLLM("Fine."), agent=Thinking("Help."), kind=kind, speech=SpeechLimits(hook_timeout=60.0)
    )
    harness.caller.says("book a table", 0.1, 0.8)
    harness.run(until=50.0)

    said = [text for role, text in harness.messages if role == "assistant"]
    assert said == ["Your name?", "Thank you, Bob.", "Fine."]
    assert way(harness) == ["one", "two", "three"]
    assert harness.recording.of(ErrorOccurred) == []


@BOTH
def test_a_tool_waits_for_the_long_task_of_the_body_that_it_leads_to(kind: type[SessionHarness]) -> None:
    graph = StateGraph()
    one, two = graph.new_state("one", initial=True), graph.new_state("two")
    one.when_tool_called("count").go_to(two)

    @two.body
    async def ask(session: AgentSession[Any]) -> AsyncIterator[str]:
        yield f"Thank you, {await AskLong('Ask.')}."

    llm = ScriptedLLM(counts(), "One guest.")
    harness = graph_harness(graph, llm, agent=Desk("Help."), kind=kind, speech=SpeechLimits(hook_timeout=60.0))
    harness.caller.says("how many are we", 1.0, 2.0)
    harness.run(until=50.0)

    said = [text for role, text in harness.messages if role == "assistant"]
    assert said == ["Your name?", "Thank you, Bob."]
    assert harness.recording.of(ErrorOccurred) == []


# --- before the conversation begins


@BOTH
def test_a_tool_of_the_reply_that_on_enter_awaits_does_not_wait_for_the_graph(kind: type[SessionHarness]) -> None:
    class Counting(Desk):
        async def on_enter(self) -> None:
            await self.session.reply("Count the guests.")

    graph = StateGraph()
    one, two = graph.new_state("one", initial=True), graph.new_state("two")
    one.when_tool_called("count").go_to(two)

    harness = graph_harness(graph, ScriptedLLM(counts(), "One guest."), agent=Counting("Help."), kind=kind)
    harness.run(until=6.0)

    assert harness.messages == [("assistant", "One guest.")]
    assert way(harness) == ["one", "two"]
    assert harness.recording.of(ErrorOccurred) == []


@BOTH
def test_an_answer_waits_for_on_enter_which_speaks_before_it(kind: type[SessionHarness]) -> None:
    class Greeting(Desk):
        async def on_enter(self) -> None:
            await self.session.say("Hello.")
            await anyio.sleep(3.0)
            await self.session.say("One moment.")

    harness = graph_harness(two_states(PatternIntents()), ScriptedLLM("Fine."), agent=Greeting("Help."), kind=kind)
    harness.caller.says("book a table", 1.5, 2.5)
    harness.run(until=10.0)

    assert [text for role, text in harness.messages if role == "assistant"] == ["Hello.", "One moment.", "Fine."]
    assert way(harness) == ["one", "two"]


# --- conditions and classifiers that speak


class AskName(AgentTask[str]):
    """Asks for a name."""

    async def on_enter(self) -> None:
        await self.session.say("Your name?")
        self.complete("Bob")


@BOTH
@pytest.mark.parametrize("how", ["say", "reply", "task"])
@pytest.mark.parametrize("trigger", ["turn", "timer"])
def test_speech_and_a_task_that_a_condition_awaits_come_before_the_answer_that_waits_for_it(
    kind: type[SessionHarness], how: str, trigger: str
) -> None:
    async def asks(session: AgentSession[Any]) -> bool:
        if how == "say":
            await session.say("One moment.")
        elif how == "reply":
            await session.reply("Count the guests.")
        else:
            await AskName("Ask.")
        return True

    graph = StateGraph(PatternIntents())
    one, two = graph.new_state("one", initial=True), graph.new_state("two")
    way_on = one.when_event("user_turn") if trigger == "turn" else one.after(1.9)
    way_on.with_condition(asks).go_to(two)
    two.when_tool_called("count").go_to(graph.new_state("three"))
    steps: list[Any] = [counts(), "One guest."] if how == "reply" else []
    harness = graph_harness(graph, ScriptedLLM(*steps, "Fine."), agent=Desk("Help."), kind=kind)
    harness.caller.says("book a table", 1.0, 2.0)
    harness.run(until=12.0)

    said = {"say": "One moment.", "reply": "One guest.", "task": "Your name?"}[how]
    assert [text for role, text in harness.messages if role == "assistant"] == [said, "Fine."]
    assert way(harness)[:2] == ["one", "two"]
    assert harness.recording.of(ErrorOccurred) == []


def test_a_condition_that_awaits_the_close_is_cut_at_its_limit() -> None:
    async def waits(session: AgentSession[Any]) -> bool:
        await session.wait_closed()
        return True

    graph = StateGraph()
    one, two = graph.new_state("one", initial=True), graph.new_state("two")
    one.when_condition(waits).go_to(two)
    one.after(1.0).go_to(two)
    harness = graph_harness(graph, speech=SpeechLimits(hook_timeout=3.0))
    harness.expects_error("graph", contains="did not end within 3 s")
    harness.run(until=5.0)

    assert way(harness) == ["one", "two"]
