"""Calls that end with the floor, the answer after the last tool step, and answers without anything to speak."""

from __future__ import annotations

import anyio
import pytest

from vivavoce.agents import Agent, EmptyReply, SessionOptions, SpeechLimits, function_tool
from vivavoce.agents.testing import ScriptedLLM, ScriptedTTS, SessionHarness
from vivavoce.pipelines.llm.chat_context import FunctionCall
from vivavoce.pipelines.llm.tools import ToolCall
from vivavoce.pipelines.testing import StepItem

CALL = ToolCall(call_id="c1", name="search", arguments="{}")


class Searcher(Agent):
    """Searches for two seconds, unless the caller speaks; records empty results."""

    def __init__(self) -> None:
        super().__init__("Help.")
        self.empty: list[EmptyReply] = []
        self.searched = 0

    @function_tool(cancel_on_interrupt=True)
    async def search(self) -> str:
        """Search."""
        await anyio.sleep(2.0)
        self.searched += 1
        return "found"

    async def on_empty_reply(self, reply: EmptyReply) -> None:
        self.empty.append(reply)


@pytest.mark.parametrize("words", [(), ("Moment. ",)], ids=["without words", "behind words"])
def test_words_cancel_a_call_that_wants_it_and_its_request_is_not_answered(words: tuple[str, ...]) -> None:
    agent = Searcher()
    first: list[StepItem] = [0.1, *words, CALL]
    harness = SessionHarness(agent, ScriptedLLM(first, [0.1, "As you like."], [0.1, "It is found."]))
    harness.caller.says("search please", 0.5, 1.5)
    harness.caller.says("never mind", 2.8, 3.4)
    harness.run(until=9.0)
    assert agent.searched == 0
    assert [text for role, text in harness.messages if role == "assistant" and text != "Moment."] == ["As you like."]
    assert [call.output for call in harness.tools] == ["The call was cancelled."]


@pytest.mark.parametrize("words", [(), ("Moment. ",)], ids=["without words", "behind words"])
def test_a_sign_of_listening_cancels_no_call(words: tuple[str, ...]) -> None:
    agent = Searcher()
    first: list[StepItem] = [0.1, *words, CALL]
    harness = SessionHarness(agent, ScriptedLLM(first, [0.1, "It is found."], [0.1, "It is found."]))
    harness.caller.says("search please", 0.5, 1.5)
    harness.caller.says("mhm", 2.8, 3.0)
    harness.run(until=9.0)
    assert agent.searched == 1


def test_after_the_last_tool_step_the_tools_stay_declared_and_a_call_is_neither_run_nor_kept() -> None:
    agent = Searcher()
    harness = SessionHarness(
        agent,
        ScriptedLLM(
            [0.1, ToolCall(call_id="c1", name="search", arguments="{}")],
            [0.1, "I found it.", ToolCall(call_id="c2", name="search", arguments="{}")],
        ),
        options=SessionOptions(speech=SpeechLimits(max_tool_steps=1)),
    )
    harness.caller.says("search please", 0.5, 1.5)
    harness.run(until=9.0)
    assert agent.searched == 1
    forced = harness.llm.requests[-1]
    assert forced.tool_choice.mode == "none"
    assert [tool.name for tool in forced.tools] == ["search"]
    calls = [item.call_id for item in harness.session.history.items if isinstance(item, FunctionCall)]
    assert calls == ["c1"]
    assert harness.messages[-1] == ("assistant", "I found it.")
    assert agent.empty == []


def test_a_forced_answer_of_a_call_alone_is_an_empty_one() -> None:
    agent = Searcher()
    harness = SessionHarness(
        agent,
        ScriptedLLM(
            [0.1, ToolCall(call_id="c0", name="search", arguments="{}")],
            [0.1, ToolCall(call_id="c1", name="search", arguments="{}")],
        ),
        options=SessionOptions(speech=SpeechLimits(max_tool_steps=1)),
    )
    harness.caller.says("search please", 0.5, 1.5)
    harness.run(until=9.0)
    assert agent.searched == 1
    assert [reply.text for reply in agent.empty] == ["search please"]


def test_an_answer_of_an_emoji_is_an_empty_one() -> None:
    agent = Searcher()
    harness = SessionHarness(agent, ScriptedLLM([0.1, "👍"]), tts=ScriptedTTS())
    harness.caller.says("all good", 0.5, 1.5)
    harness.run(until=6.0)
    assert [reply.text for reply in agent.empty] == ["all good"]
    assert ("assistant", "👍") not in harness.messages


def test_a_sentence_that_was_played_is_heard_to_its_end_though_the_model_stalls() -> None:
    sentence = "Incomprehensibilities notwithstanding, internationalization prevails. "
    harness = SessionHarness(Agent("Help."), ScriptedLLM([0.1, sentence, 5.0, "More of it."]))
    harness.caller.says("tell me", 0.5, 1.5)

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(5.0)
        await harness.session.interrupt()

    harness.run(scenario, until=6.0)
    assert harness.messages[-1] == ("assistant", sentence.strip())
