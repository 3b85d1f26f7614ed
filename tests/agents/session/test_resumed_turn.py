"""The turn that a session before has left without an answer: who answers it, and for what it waits."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest

from kit.graphs import RealtimeHarness, graph_harness, way
from kit.keeping import Keeping
from vivavoce.agents import Agent, CompletedTurn, ConversationFlow, RunContext, function_tool
from vivavoce.agents.graphs import PatternIntents, StateGraph
from vivavoce.agents.session_watch import watch_scope
from vivavoce.agents.tasks import AgentTask
from vivavoce.agents.testing import ScriptedLLM, SessionHarness
from vivavoce.pipelines.core.errors import ConfigurationError
from vivavoce.pipelines.llm.tools import ToolCall
from vivavoce.pipelines.testing import ScriptedRealtimeModel

KINDS = pytest.mark.parametrize("kind", [SessionHarness, RealtimeHarness], ids=["cascade", "realtime"])


class Menu(ConversationFlow):
    def __init__(self) -> None:
        self.asked: list[str] = []

    async def run(self, transcript: str) -> AsyncIterator[str]:
        self.asked.append(transcript)
        yield "We have soup."


def open_turn(store: Keeping) -> dict[str, Any]:
    """Return what is kept at the commit of the only turn of a call."""
    harness = SessionHarness(Agent("Help.", id="host"), ScriptedLLM("Soup.", delay=0.1))
    harness.caller.says("what is there to eat", 0.5, 1.5)
    with watch_scope(store):
        harness.run(until=4.0)
    return store.kept[1]


def test_the_flow_of_the_session_answers_it() -> None:
    flow = Menu()
    harness = SessionHarness(Agent("Help.", id="host"), conversation_flow=flow)
    harness.resume_from = open_turn(Keeping())
    harness.run(until=4.0)
    assert flow.asked == ["what is there to eat"]
    harness.expect_history(("user", "what is there to eat"), ("assistant", "We have soup."))


def test_a_turn_that_a_model_s_server_has_ended_is_kept_and_its_first_frame_waits() -> None:
    store = Keeping()
    model = ScriptedRealtimeModel()
    harness = SessionHarness(Agent("Help.", id="host"), model=model)
    harness.expects_error("checkpoint", contains="within 0.1 s")

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(0.4)
        store.delay = 1.0
        model.speech_started()
        await harness.until(1.0)
        model.speech_ended()
        model.transcript("what is there to eat")
        model.start_reply("We have soup.")
        await harness.until(5.0)

    with watch_scope(store):
        harness.run(scenario)
    (turn,) = harness.session.turns
    assert turn.first_audio_at == pytest.approx(1.1)
    assert [(s.name, round(s.seconds, 3)) for s in turn.stages if s.name == "checkpoint"] == [("checkpoint", 0.1)]
    kept = next(one for one in store.kept if one["open"])

    again = ScriptedRealtimeModel("Soup it is.")
    second = SessionHarness(Agent("Help.", id="host"), model=again)
    second.resume_from = kept
    second.run(until=4.0)
    second.expect_history(("user", "what is there to eat"), ("assistant", "Soup it is."))


class Kitchen(Agent):
    def __init__(self) -> None:
        super().__init__("Help.", id="host")
        self.outcomes: list[str | None] = []

    @function_tool(idempotent=True)
    async def cook(self, context: RunContext) -> str:
        """Cook."""
        await context.speech
        self.outcomes.append(context.speech.outcome)
        return "cooked"


def test_a_call_that_runs_again_is_of_a_speech_that_is_over() -> None:
    agent = Kitchen()
    kept = open_turn(Keeping())
    kept["open"]["calls"] = [
        {
            "turn_id": "turn_1",
            "call_id": "c1",
            "name": "cook",
            "arguments": "{}",
            "output": None,
            "is_error": False,
        }
    ]
    harness = SessionHarness(agent, ScriptedLLM("It is cooked."))
    harness.resume_from = kept
    harness.run(until=4.0)
    assert agent.outcomes == ["cancelled"]
    assert harness.messages[-1] == ("assistant", "It is cooked.")


def test_calls_without_an_open_turn_are_answered_too() -> None:
    kept = open_turn(Keeping())
    kept["open"] = {
        "turn_id": "",
        "calls": [
            {
                "turn_id": "speech_1",
                "call_id": "c1",
                "name": "book",
                "arguments": "{}",
                "output": None,
                "is_error": False,
            }
        ],
    }
    harness = SessionHarness(Agent("Help.", id="host"), ScriptedLLM("It may not be booked."))
    harness.resume_from = kept
    harness.run(until=4.0)
    assert harness.messages[-1] == ("assistant", "It may not be booked.")


@pytest.mark.parametrize(
    "wrong", ["turn_1", {"turn_id": 1, "calls": []}, {"calls": []}, {"turn_id": "", "calls": [{}]}]
)
def test_open_work_of_another_shape_is_refused(wrong: Any) -> None:
    harness = SessionHarness(Agent("Help.", id="host"), ScriptedLLM())
    harness.resume_from = {**open_turn(Keeping()), "open": wrong}
    with pytest.raises(ConfigurationError, match="a snapshot needs 'open' as snapshot\\(\\) returned it"):
        harness.run(until=1.0)


def test_the_tools_of_a_cut_speech_are_kept_while_they_run() -> None:
    store = Keeping()

    class Slow(Agent):
        @function_tool
        async def order(self) -> str:
            """Order."""
            await anyio.sleep(6.0)
            return "ordered"

    call = ToolCall(call_id="c1", name="order", arguments="{}")
    harness = SessionHarness(Slow("Help.", id="host"), ScriptedLLM([call], "Yes?", "It is ordered.", delay=0.1))
    harness.caller.says("soup please", 0.5, 1.5)
    harness.caller.says("are you there", 3.5, 4.5)
    with watch_scope(store):
        harness.run(until=12.0)
    between = [one["open"] for one in store.kept if [m["content"] for m in _messages(one)][-1:] == ["Yes?"]]
    assert [call["name"] for call in between[0]["calls"]] == ["order"]
    assert between[0]["turn_id"] == ""
    assert store.kept[-1]["open"] is None


def _messages(kept: dict[str, Any]) -> list[dict[str, Any]]:
    return [item for item in kept["history"]["items"] if item["type"] == "message"]


class Facts(Agent):
    """Adds what it has looked up to the caller's words, and notes for which words it has done that."""

    def __init__(self) -> None:
        super().__init__("Help.", id="host")
        self.asked: list[str] = []

    async def on_user_turn_completed(self, turn: CompletedTurn) -> None:
        self.asked.append(turn.text)
        turn.text += " [open until ten]"
        turn.instructions = "Be brief."

    @function_tool
    async def look(self) -> str:
        """Look."""
        await anyio.sleep(2.0)
        return "free"


LOOK = ToolCall(call_id="c1", name="look", arguments="{}")


def with_calls(store: Keeping) -> dict[str, Any]:
    """Return what is kept while a tool runs."""
    return next(one for one in store.kept if one["open"] and one["open"]["calls"])


@KINDS
def test_the_hook_of_a_turn_does_not_edit_words_again_that_it_has_edited_before_the_crash(
    kind: type[SessionHarness],
) -> None:
    store = Keeping()
    first = kind(Facts(), ScriptedLLM([LOOK], "Free.", delay=0.3))
    first.caller.says("is friday free", 0.5, 1.5)
    with watch_scope(store):
        first.run(until=6.0)
    agent = Facts()
    harness = kind(agent, ScriptedLLM("It may be free.", delay=0.1))
    harness.resume_from = with_calls(store)
    harness.run(until=4.0)
    assert agent.asked == []
    assert harness.messages == [("user", "is friday free [open until ten]"), ("assistant", "It may be free.")]
    assert "Be brief." in harness.llm.requests[0].extra_instructions


def three_states() -> StateGraph:
    """Three states, each of which the same words of the caller leave for the next one."""
    graph = StateGraph(PatternIntents())
    one, two, three = (graph.new_state(name, initial=name == "one") for name in ("one", "two", "three"))
    yes = graph.new_intent("yes", ["yes please"])
    one.when_intent_matched(yes).go_to(two)
    two.when_intent_matched(yes).go_to(three)
    return graph


@KINDS
def test_a_graph_does_not_move_again_by_words_by_which_it_has_moved_before_the_crash(
    kind: type[SessionHarness],
) -> None:
    store = Keeping()
    first = graph_harness(three_states(), ScriptedLLM([LOOK], "Free.", delay=0.3), kind=kind, agent=Facts())
    first.caller.says("yes please", 0.5, 1.5)
    with watch_scope(store):
        first.run(until=6.0)
    assert way(first) == ["one", "two"]
    ways = []
    for kept in (one for one in store.kept if one["open"]):
        harness = graph_harness(three_states(), ScriptedLLM("It may be free.", delay=0.1), kind=kind, agent=Facts())
        harness.resume_from = kept
        harness.run(until=4.0)
        assert harness.messages[-1] == ("assistant", "It may be free.")
        ways.append(way(harness))
    before = ways.index([])  # one or two: the writer's thread decides which changes share a write
    assert before >= 1
    assert ways == [["two"]] * before + [[]] * (len(ways) - before)


class Cook(Agent):
    """Whose tool takes as long as the test says."""

    def __init__(self, seconds: float = 1.0) -> None:
        super().__init__("Help.", id="host")
        self.seconds = seconds

    @function_tool
    async def order(self) -> str:
        """Order."""
        await anyio.sleep(self.seconds)
        return "ordered"


ORDER = ToolCall(call_id="c1", name="order", arguments="{}")


def has_result(kept: dict[str, Any]) -> bool:
    return any(item["type"] == "function_call_output" for item in kept["history"]["items"])


def says_after(kept: dict[str, Any], kind: type[SessionHarness] = SessionHarness) -> list[str]:
    """Return what a session says that resumes what was kept; nobody speaks to it."""
    harness = kind(Cook(), ScriptedLLM("It is ordered.", "Once more.", delay=0.1))
    before = len([item for item in kept["history"]["items"] if item["type"] == "message"])
    harness.resume_from = kept
    harness.run(until=4.0)
    return [text for _, text in harness.messages[before:]]


@KINDS
def test_the_result_of_a_tool_that_a_reply_has_called_is_told_after_the_crash(kind: type[SessionHarness]) -> None:
    store = Keeping()

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(1.0)
        _speech = harness.session.reply("Order soup.")
        await harness.until(6.0)

    harness = kind(Cook(), ScriptedLLM([ORDER], "It is ordered.", delay=0.3))
    with watch_scope(store):
        harness.run(scenario)
    said = [says_after(kept, kind) for kept in store.kept if has_result(kept)]
    assert said[0] == ["It is ordered."]
    assert said[-1] == []


@KINDS
def test_the_late_result_of_a_cut_speech_is_told_after_the_crash(kind: type[SessionHarness]) -> None:
    store = Keeping()
    harness = kind(Cook(6.0), ScriptedLLM([ORDER], "Yes?", "It is ordered.", delay=0.1))
    harness.caller.says("soup please", 0.5, 1.5)
    harness.caller.says("are you there", 3.5, 4.5)
    with watch_scope(store):
        harness.run(until=12.0)
    said = [says_after(kept, kind) for kept in store.kept if has_result(kept)]
    assert said[0] == ["It is ordered."]
    assert said[-1] == []


def test_a_call_that_was_broken_off_is_told_after_a_second_crash() -> None:
    first, second = Keeping(), Keeping()

    async def scenario(harness: SessionHarness) -> None:
        _speech = harness.session.reply("Order soup.")
        await harness.until(0.6)

    harness = SessionHarness(Cook(), ScriptedLLM([ORDER], delay=0.3))
    with watch_scope(first):
        harness.run(scenario)
    again = SessionHarness(Cook(), ScriptedLLM("It may be ordered.", delay=3.0))
    again.resume_from = with_calls(first)
    with watch_scope(second):
        again.run(until=2.0)
    assert says_after(second.kept[0]) == ["It is ordered."]


def test_a_turn_whose_words_a_model_has_not_told_yet_is_not_open_before_they_come() -> None:
    store, model = Keeping(), ScriptedRealtimeModel()
    harness = SessionHarness(Agent("Help.", id="host"), model=model)

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(0.4)
        model.speech_started()
        await harness.until(1.0)
        model.speech_ended()
        model.start_reply("We have soup and many other things which you may like.")
        await harness.until(1.5)
        model.transcript("what is there to eat")
        await harness.until(8.0)

    with watch_scope(store):
        harness.run(scenario)
    turns = [
        (message["content"], "" if one["open"] is None else one["open"]["turn_id"])
        for one in store.kept
        for message in _messages(one)[:1]
    ]
    assert list(dict.fromkeys(turns)) == [
        ("[no transcript]", ""),
        ("what is there to eat", "turn_1"),
        ("what is there to eat", ""),
    ]


class Billing(Agent):
    """Takes over; `greeting`: what it says when it enters."""

    def __init__(self, greeting: str = "") -> None:
        super().__init__("Bill.", id="billing")
        self.greeting = greeting

    async def on_enter(self) -> None:
        if self.greeting:
            await self.session.say(self.greeting)


class Desk(Agent):
    def __init__(self, greeting: str = "") -> None:
        super().__init__("Help.", id="host")
        self.greeting = greeting

    @function_tool(idempotent=True)
    async def order(self) -> Agent:
        """Hand over."""
        return Billing(self.greeting)


@pytest.mark.parametrize(("greeting", "said"), [("", "Your bill is paid."), ("Billing here.", "Billing here.")])
def test_the_agent_to_which_a_repeated_call_hands_over_answers_the_open_turn_once(greeting: str, said: str) -> None:
    store = Keeping()
    kept = open_turn(Keeping())
    kept["open"]["calls"] = [
        {"turn_id": "turn_1", "call_id": "c1", "name": "order", "arguments": "{}", "output": None, "is_error": False}
    ]
    harness = SessionHarness(Desk(greeting), ScriptedLLM("Your bill is paid.", delay=0.1))
    harness.resume_from = kept
    with watch_scope(store):
        harness.run(until=6.0)
    assert harness.session.agent.id == "billing"
    assert [text for _, text in harness.messages[1:]] == [said]
    assert store.kept[-1]["open"] is None


def test_a_resumed_turn_whose_answer_the_caller_talks_over_stays_open_until_the_next_one_is_answered() -> None:
    kept, store = open_turn(Keeping()), Keeping()
    harness = SessionHarness(Agent("Help.", id="host"), ScriptedLLM("Unheard.", "Yes, we have soup.", delay=0.5))
    harness.resume_from = kept
    harness.caller.says("hello are you there my friend", 0.3, 5.0)
    with watch_scope(store):
        harness.run(until=9.0)
    assert harness.session.turns[0].outcome == "cancelled"
    turns = ["" if one["open"] is None else one["open"]["turn_id"] for one in store.kept]
    assert list(dict.fromkeys(turns)) == ["turn_1", "turn_2", ""]


def test_a_handoff_is_kept_when_it_happens() -> None:
    store = Keeping()
    harness = SessionHarness(Desk("Billing here, how can I help you today?"), ScriptedLLM([ORDER], delay=0.1))
    harness.caller.says("my bill please", 0.5, 1.5)
    with watch_scope(store):
        harness.run(until=9.0)
    before = [one for one in store.kept if one["agent"] == "billing" and len(_messages(one)) == 1]
    assert before


class Asking(Agent):
    def __init__(self) -> None:
        super().__init__("Help.", id="host")

    @function_tool
    async def ask(self) -> str:
        """Ask for the day."""
        return await Day("Ask for the day.")


class Day(AgentTask[str]):
    async def on_enter(self) -> None:
        await self.session.say("For which day?")


def test_a_call_that_a_task_has_is_kept_under_the_agent_behind_the_task() -> None:
    store = Keeping()
    call = ToolCall(call_id="c1", name="ask", arguments="{}")
    harness = SessionHarness(Asking(), ScriptedLLM([call], "Go on.", "Go on.", delay=0.1))
    harness.caller.says("a table please", 0.5, 1.5)
    with watch_scope(store):
        harness.run(until=6.0)
    assert ("assistant", "For which day?") in harness.messages
    assert {one["agent"] for one in store.kept} == {"host"}
