"""Scenario 16: tools, their results, their errors and their effects on the conversation."""

from __future__ import annotations

import re
import sys
import threading
from typing import Any

import anyio
import pytest

from vivavoce.agents import Agent, RunContext, ToolError, function_tool
from vivavoce.agents.events import ErrorOccurred
from vivavoce.agents.testing import ScriptedLLM, SessionHarness
from vivavoce.pipelines.core.errors import SessionError
from vivavoce.pipelines.llm.chat_context import ChatMessage, FunctionCall, FunctionCallOutput
from vivavoce.pipelines.llm.tools import ToolCall


class Desk(Agent):
    def __init__(self) -> None:
        super().__init__("Help.")
        self.threads: list[int] = []
        self.order: list[str] = []
        self.caught: list[Exception] = []

    @function_tool
    async def returns(self, what: str) -> Any:
        """Return something."""
        return {"none": None, "dict": {}, "zero": 0, "false": False, "list": [1, "a"]}.get(what, what)

    @function_tool
    async def fails(self) -> str:
        """Fail with a secret in the error."""
        raise RuntimeError("password xyzzy")

    @function_tool
    async def refuses(self) -> str:
        """Tell the model why not."""
        raise ToolError("We are closed on Mondays.")

    @function_tool
    def blocks(self, context: RunContext) -> str:
        """A sync tool runs in a thread."""
        self.threads.append(threading.get_ident())
        _ = context.session.say("From a thread.")
        return "threaded"

    @function_tool
    async def slow(self, seconds: float) -> str:
        """Take time."""
        await anyio.sleep(seconds)
        self.order.append(f"{seconds}")
        return f"after {seconds}"

    @function_tool
    async def awaits_itself(self, context: RunContext) -> str:
        """Would wait for ever."""
        try:
            await context.speech
        except SessionError as error:
            self.caught.append(error)
            raise
        return "impossible"


def call(name: str, arguments: str = "{}", call_id: str = "c1") -> ToolCall:
    return ToolCall(call_id=call_id, name=name, arguments=arguments)


def ask(*calls: ToolCall, agent: Desk | None = None) -> SessionHarness:
    """The caller asks, committed at 1.9; the model calls at 2.0 and then answers."""
    harness = SessionHarness(agent or Desk(), ScriptedLLM(list(calls), "Done.", delay=0.1))
    harness.caller.says("please do it", 0.5, 1.5)
    return harness


def outputs(harness: SessionHarness) -> list[tuple[str, bool]]:
    return [
        (item.output, item.is_error) for item in harness.session.history.items if isinstance(item, FunctionCallOutput)
    ]


@pytest.mark.parametrize(
    ("what", "output"),
    [
        ("text", "text"),
        ("", ""),
        ("none", "null"),
        ("dict", "{}"),
        ("zero", "0"),
        ("false", "false"),
        ("list", '[1,"a"]'),
    ],
)
def test_what_a_tool_returns_is_answered_falsy_or_not(what: str, output: str) -> None:
    harness = ask(call("returns", f'{{"what": "{what}"}}')).run(until=5.0)
    assert outputs(harness) == [(output, False)]
    assert [type(item) for item in harness.session.history.items] == [
        ChatMessage,
        FunctionCall,
        FunctionCallOutput,
        ChatMessage,
    ]
    harness.expect_history(("user", "please do it"), ("assistant", "Done.")).expect_outcomes("completed")
    harness.expect_states("agent", ("listening", 0.5), ("thinking", 1.9), ("speaking", 2.3), ("idle", 2.5))
    assert outputs(harness) == [
        (item.output, item.is_error)
        for item in harness.llm.requests[1].context.items
        if isinstance(item, FunctionCallOutput)
    ]


def test_a_raising_tool_is_answered_without_leaking_what_it_raised() -> None:
    harness = ask(call("fails")).expects_error("tool").run(until=5.0)
    assert outputs(harness) == [("The tool failed (RuntimeError).", True)]
    harness.expect_outcomes("completed")
    assert [(event.source, type(event.error)) for event in harness.recording.of(ErrorOccurred)] == [
        ("tool", RuntimeError)
    ]


def test_a_tool_error_reaches_the_model_as_it_is() -> None:
    harness = ask(call("refuses")).run(until=5.0)
    assert outputs(harness) == [("We are closed on Mondays.", True)]
    assert harness.recording.of(ErrorOccurred) == []


def test_an_unknown_tool_is_answered_with_the_names_there_are() -> None:
    harness = ask(call("bakes")).run(until=5.0)
    ((output, is_error),) = outputs(harness)
    assert is_error
    assert "'bakes'" in output
    assert "refuses" in output
    harness.expect_outcomes("completed")


@pytest.mark.parametrize("arguments", ["not json", '{"seconds": "soon"}', "{}", '{"seconds": 1, "more": 2}'])
def test_bad_arguments_are_answered_and_the_tool_does_not_run(arguments: str) -> None:
    agent = Desk()
    harness = ask(call("slow", arguments), agent=agent).run(until=5.0)
    ((output, is_error),) = outputs(harness)
    assert is_error
    assert output.startswith("The arguments are not valid")
    assert agent.order == []
    harness.expect_outcomes("completed")


def test_a_sync_tool_runs_in_a_thread_and_may_say_something_from_there() -> None:
    agent = Desk()
    harness = ask(call("blocks"), agent=agent).run(until=6.0)
    assert agent.threads
    assert agent.threads[0] != threading.get_ident()
    assert outputs(harness) == [("threaded", False)]
    assert sorted(harness.messages) == sorted(
        [("user", "please do it"), ("assistant", "From a thread."), ("assistant", "Done.")]
    )
    harness.expect_outcomes("completed", "completed")


def test_parallel_calls_run_side_by_side_and_keep_the_order_of_the_calls() -> None:
    agent = Desk()
    harness = ask(call("slow", '{"seconds": 2}', "c1"), call("slow", '{"seconds": 1}', "c2"), agent=agent)
    harness.run(until=8.0)
    assert agent.order == ["1.0", "2.0"]
    assert outputs(harness) == [("after 2.0", False), ("after 1.0", False)]
    items = harness.session.history.items
    assert [item.call_id for item in items if isinstance(item, FunctionCall)] == ["c1", "c2"]
    harness.expect_states("agent", ("listening", 0.5), ("thinking", 1.9), ("speaking", 4.3), ("idle", 4.5))


def test_five_rounds_of_tools_are_followed_by_an_answer_without_calls() -> None:
    again = [call("returns", '{"what": "text"}', f"c{number}") for number in range(5)]
    harness = SessionHarness(Desk(), ScriptedLLM(*[[step] for step in again], "Enough.", delay=0.1))
    harness.caller.says("please do it", 0.5, 1.5)
    harness.run(until=6.0)
    assert len(harness.tools) == 5
    assert [request.tool_choice.mode for request in harness.llm.requests] == ["auto"] * 5 + ["none"]
    harness.expect_history(("user", "please do it"), ("assistant", "Enough.")).expect_outcomes("completed")


def test_a_tool_after_spoken_words_plays_them_first() -> None:
    harness = SessionHarness(
        Desk(), ScriptedLLM(["Let me see.", call("slow", '{"seconds": 2}')], "Found it.", delay=0.1)
    )
    harness.caller.says("please do it", 0.5, 1.5)
    harness.run(until=8.0)
    harness.expect_history(("user", "please do it"), ("assistant", "Let me see."), ("assistant", "Found it."))
    harness.expect_played((2.2, 0.6), (4.3, 0.4)).expect_outcomes("completed")
    harness.expect_states(
        "agent",
        ("listening", 0.5),
        ("thinking", 1.9),
        ("speaking", 2.2),
        ("thinking", 2.8),
        ("speaking", 4.3),
        ("idle", 4.7),
    )


def test_words_behind_a_call_of_the_same_answer_are_heard_once_and_before_the_answer_to_its_result() -> None:
    harness = SessionHarness(Desk(), ScriptedLLM([call("slow", '{"seconds": 2}'), "Let me see."], "Found it."))
    harness.caller.says("please do it", 0.5, 1.5)
    harness.run(until=8.0)
    harness.expect_history(("user", "please do it"), ("assistant", "Let me see."), ("assistant", "Found it."))
    harness.expect_tools(("slow", "after 2.0")).expect_outcomes("completed")
    assert [seconds for _, seconds in harness.played] == pytest.approx([0.6, 0.4])


def test_an_interrupted_call_runs_to_its_end_and_its_result_is_committed() -> None:
    harness = SessionHarness(
        Desk(), ScriptedLLM([call("slow", '{"seconds": 4}')], "Of course.", "It is done.", delay=0.1)
    )
    harness.caller.says("please do it", 0.5, 1.5)
    harness.caller.says("and be quick", 2.5, 3.5)
    harness.run(until=12.0)
    harness.expect_tools(("slow", "after 4.0"))
    assert harness.tools[0].at == pytest.approx(6.0)
    pending = [item for item in harness.llm.requests[1].context.items if isinstance(item, FunctionCallOutput)]
    assert [item.call_id for item in pending] == ["c1"]
    assert "still running" in pending[0].output
    assert outputs(harness) == [("after 4.0", False)]
    harness.expect_history(
        ("user", "please do it"), ("user", "and be quick"), ("assistant", "Of course."), ("assistant", "It is done.")
    ).expect_played((4.2, 0.4), (6.3, 0.6))


def test_a_result_that_comes_after_its_speech_was_cut_is_answered_once_nobody_speaks() -> None:
    call = ToolCall(call_id="c1", name="slow", arguments='{"seconds": 6.0}')
    llm = ScriptedLLM(
        ["One moment please while I look through all of our books.", call], "All right.", "Here is what I found."
    )
    harness = SessionHarness(Desk(), llm)
    harness.caller.says("search please", 0.5, 1.5)
    harness.caller.says("thank you very much", 2.4, 3.4)
    harness.run(until=12.0)
    assert [text for role, text in harness.messages if role == "assistant"][1:] == [
        "All right.",
        "Here is what I found.",
    ]
    *_, pending, newest = llm.requests[1].context.items
    assert isinstance(newest, ChatMessage)
    assert isinstance(pending, FunctionCallOutput)
    assert "still running" in pending.output
    settled = [item for item in harness.session.history.items if isinstance(item, FunctionCallOutput)]
    assert [item.output for item in settled] == ["after 6.0"]
    assert harness.session.agent_state == "closed"


def test_a_call_that_wants_to_end_with_an_interruption_is_cancelled_by_it() -> None:
    class Searcher(Agent):
        @function_tool(cancel_on_interrupt=True)
        async def search(self) -> str:
            """Search for a long time."""
            await anyio.sleep(20.0)
            return "found"

    llm = ScriptedLLM(
        [
            "One moment please while I look through all of our books.",
            ToolCall(call_id="c1", name="search", arguments="{}"),
        ],
        "All right.",
    )
    harness = SessionHarness(Searcher("Help."), llm)
    harness.caller.says("search please", 0.5, 1.5)
    harness.caller.says("no stop it", 2.4, 3.4)
    harness.run(until=8.0)
    harness.expect_tools(("search", "The call was cancelled."))
    assert harness.session.turns[0].outcome == "interrupted"


def test_awaiting_the_speech_that_runs_the_tool_raises_instead_of_waiting_for_ever() -> None:
    agent = Desk()
    harness = ask(call("awaits_itself"), agent=agent).expects_error("tool").run(until=5.0)
    assert "return from the tool" in str(agent.caught[0])
    harness.expect_outcomes("completed")
    assert outputs(harness)[0][1]


def test_tools_get_the_userdata_of_their_session() -> None:
    seen: list[object] = []

    @function_tool
    async def peek(context: RunContext) -> None:
        """Look at the userdata."""
        seen.append(context.userdata)

    harness = SessionHarness(
        Agent("Help.", tools=[peek]), ScriptedLLM([call("peek")], "Done.", delay=0.1), userdata={"name": "Ada"}
    )
    harness.caller.says("please do it", 0.5, 1.5)
    harness.run(until=5.0)
    assert seen == [{"name": "Ada"}]


LONG = "One two three four five six seven eight nine ten eleven twelve. "
"""Played from 2.2 on, for some five seconds."""


def kinds(harness: SessionHarness) -> list[str]:
    return [
        item.content if isinstance(item, ChatMessage) else type(item).__name__ for item in harness.session.history.items
    ]


def quick_lookup(*answers: str) -> SessionHarness:
    """The model says something long and calls a tool that is done before the words are played."""
    llm = ScriptedLLM([LONG, call("slow", '{"seconds": 0.1}')], *answers, delay=0.1)
    harness = SessionHarness(Desk(), llm)
    harness.caller.says("please do it", 0.5, 1.5)
    return harness


def test_what_was_said_before_a_quick_call_stands_before_it_in_the_history() -> None:
    harness = quick_lookup("Done.").run(until=12.0)
    assert kinds(harness) == ["please do it", LONG.strip(), "FunctionCall", "FunctionCallOutput", "Done."]
    items = harness.llm.requests[1].context.items
    assert [type(item) for item in items] == [ChatMessage, ChatMessage, FunctionCall, FunctionCallOutput]
    assert [tool.name for tool in harness.session.turns[0].tools] == ["slow"]


def test_cut_words_stand_before_their_calls_and_the_next_answer_has_the_result() -> None:
    harness = quick_lookup("All right.")
    harness.caller.says("no stop please wait", 3.0, 4.5)
    harness.run(until=14.0)
    first, heard, *rest = kinds(harness)
    assert first == "please do it"
    assert LONG.startswith(heard)
    assert rest == ["FunctionCall", "FunctionCallOutput", "no stop please wait", "All right."]
    assert [turn.outcome for turn in harness.session.turns] == ["interrupted", "completed"]
    assert [[tool.name for tool in turn.tools] for turn in harness.session.turns] == [["slow"], []]
    assert len(harness.llm.requests) == 2  # the answer to the new words had the result already


def test_a_result_that_no_model_was_sent_before_the_cut_is_answered_once() -> None:
    harness = quick_lookup("It is done.", "Not asked for.")

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(3.0)
        await harness.session.interrupt()
        await harness.until(20.0)

    harness.run(scenario)
    assert [text for _, text in harness.messages][-1] == "It is done."
    assert len(harness.llm.requests) == 2
    assert [(turn.kind, turn.outcome) for turn in harness.session.turns] == [
        ("turn", "interrupted"),
        ("reply", "completed"),
    ]


def test_a_call_that_settles_after_its_turn_is_in_the_record_of_its_answer() -> None:
    harness = SessionHarness(Desk(), ScriptedLLM([LONG, call("slow", '{"seconds": 6}')], "Here it is.", delay=0.1))
    harness.caller.says("please do it", 0.5, 1.5)

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(3.0)
        await harness.session.interrupt()
        await harness.until(20.0)

    harness.run(scenario)
    assert [(turn.kind, [tool.name for tool in turn.tools]) for turn in harness.session.turns] == [
        ("turn", []),
        ("reply", ["slow"]),
    ]
    harness.expect_tools(("slow", "after 6.0"))


def test_a_cut_speech_is_not_answered_late_when_the_session_closes() -> None:
    harness = quick_lookup("Not asked for.").run(until=3.0)
    assert len(harness.llm.requests) == 1
    assert kinds(harness)[2:] == ["FunctionCall", "FunctionCallOutput"]


def test_a_late_answer_waits_until_the_user_is_silent() -> None:
    harness = quick_lookup("It is done.")
    harness.caller.makes_noise(3.2, 6.0)

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(3.5)
        await harness.session.interrupt()
        await harness.until(20.0)

    harness.run(scenario)
    assert len(harness.llm.requests) == 2
    assert harness.llm.requested_at[1] > 6.0
    assert harness.messages[-1] == ("assistant", "It is done.")


def test_a_speech_that_takes_the_floor_answers_for_the_one_it_cut() -> None:
    harness = quick_lookup("It is done.")

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(3.0)
        speech = harness.session.reply("Go on.", when_busy="interrupt")
        await speech
        await harness.until(20.0)

    harness.run(scenario)
    assert len(harness.llm.requests) == 2
    assert [turn.outcome for turn in harness.session.turns] == ["interrupted", "completed"]


def test_a_result_whose_speech_was_dropped_while_it_waited_for_the_floor_is_answered_once() -> None:
    class Announcer(Agent):
        @function_tool
        async def announce(self, context: RunContext) -> str:
            """Say something long and be done before it is over."""
            _ = context.session.say(LONG)
            await anyio.sleep(0.5)
            return "announced"

    harness = SessionHarness(Announcer("Help."), ScriptedLLM([call("announce")], "Done.", "Not asked for.", delay=0.1))
    harness.caller.says("please do it", 0.5, 1.5)

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(3.0)
        assert [event.tool for event in harness.tools] == ["announce"]
        assert len(harness.llm.requests) == 1  # its answer waits behind the announcement
        await harness.session.interrupt()
        await harness.until(20.0)

    harness.run(scenario)
    assert len(harness.llm.requests) == 2
    assert harness.messages[-1] == ("assistant", "Done.")
    assert [[tool.name for tool in turn.tools] for turn in harness.session.turns if turn.kind == "turn"] == [
        ["announce"]
    ]


def test_every_error_output_leaks_nothing_to_the_caller_or_the_log(caplog: pytest.LogCaptureFixture) -> None:
    harness = ask(call("fails"), call("slow", '{"seconds": "s3cret"}', "c2")).expects_error("tool").run(until=5.0)
    texts = [output for output, _ in outputs(harness)]
    assert len(texts) == 2
    assert "xyzzy" not in "".join([*texts, *(r.getMessage() for r in caplog.records if r.levelname != "DEBUG")])
    assert "s3cret" not in "".join([*texts, caplog.text])


class Leaving(Agent):
    """Its tools try to end the process."""

    @function_tool
    async def leaves(self) -> str:
        """Exit."""
        sys.exit(3)

    @function_tool
    def leaves_in_a_thread(self) -> str:
        """Exit in a thread."""
        sys.exit(3)

    @function_tool
    async def is_interrupted(self) -> str:
        """Raise the exception of Ctrl-C."""
        raise KeyboardInterrupt

    @function_tool
    async def leaves_a_group(self) -> str:
        """Exit while tasks of its own run."""
        async with anyio.create_task_group() as group:
            group.start_soon(anyio.sleep, 60)
            await anyio.sleep(0.1)
            sys.exit(3)
        return "stayed"


@pytest.mark.parametrize("tool", ["leaves", "leaves_in_a_thread", "is_interrupted", "leaves_a_group"])
def test_a_tool_that_wants_to_end_the_process_fails_its_call_alone(tool: str, caplog: pytest.LogCaptureFixture) -> None:
    harness = SessionHarness(Leaving("Help."), ScriptedLLM([call(tool)], "It failed.", "All is well.", delay=0.1))
    harness.caller.says("please do it", 0.5, 1.5)
    harness.caller.says("and now", 5.0, 6.0)
    harness.expects_error("tool").run(until=9.0)
    ((output, is_error),) = outputs(harness)
    assert is_error
    assert output == "The tool failed (RuntimeError)."
    (error,) = [event.error for event in harness.recording.of(ErrorOccurred)]
    assert str(error) in (f"the tool {tool} ended with SystemExit", f"the tool {tool} ended with KeyboardInterrupt")
    assert re.search(rf"test_16_tools\.py:\d+ in {tool};", caplog.text)
    harness.expect_outcomes("completed", "completed")
    assert harness.messages[-1] == ("assistant", "All is well.")
