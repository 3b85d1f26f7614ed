"""Parts of turns are loaded and built before the first turn: in a thread, and only those that the session uses."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

import anyio
import pytest

from kit.forks import printed_by_forks
from vivavoce.agents import Agent, SessionOptions, function_tool
from vivavoce.agents.events import ErrorOccurred
from vivavoce.agents.testing import ScriptedLLM, ScriptedTTS, SessionHarness
from vivavoce.pipelines.cascading import CascadingOptions, CascadingPipeline
from vivavoce.pipelines.core.errors import ConfigurationError, SessionError
from vivavoce.pipelines.llm.tools import ToolCall
from vivavoce.pipelines.tts.text_filters import DEFAULT_TEXT_FILTERS, are_prepared, prepare_filters

TOOLS = ["book", "look_up", "fail", "none_such", "look_up", "hand_over", "order", "fetch"]


FEATURES: dict[tuple[str, ...], list[str]] = {
    (): [],
    ("tools",): TOOLS,
    ("tools", "telemetry"): TOOLS,
    ("tools", "mcp"): TOOLS,
    ("late",): ["order", "fetch"],
}
"""What a call uses -> the tools that it calls."""

CALLS = [(pipeline, *features) for features in FEATURES for pipeline in ("cascading", "realtime")]

Reports = dict[tuple[str, ...], dict[str, Any]]


@pytest.fixture(scope="module")
def reports() -> Reports:
    """Run each call in a fork of one interpreter, and return the reports; a fork has no modules of other forks."""
    printed = printed_by_forks("kit.warm_start:main", CALLS)
    return {call: json.loads(report) for call, report in zip(CALLS, printed, strict=True)}


@pytest.mark.timeout(150)
@pytest.mark.parametrize("call", CALLS, ids=" ".join)
def test_no_turn_of_a_call_imports_anything(call: tuple[str, ...], reports: Reports) -> None:
    report = reports[call]
    assert sorted(report["tools"]) == sorted(FEATURES[call[1:]])
    assert "completed" in report["outcomes"]
    assert report["imported"] == {}


@pytest.mark.timeout(150)
def test_only_an_agent_with_tools_has_pydantic_loaded(reports: Reports) -> None:
    assert "pydantic" not in reports["cascading",]["loaded_before"]
    assert "pydantic" in reports["cascading", "tools"]["loaded_before"]


class Plain(Agent):
    """Has one tool."""

    def __init__(self) -> None:
        super().__init__("Help.")

    @function_tool
    async def look(self, where: str) -> str:
        """Look somewhere."""
        return where


class Odd(Agent):
    """Has a tool whose parameters cannot be described to a model."""

    def __init__(self) -> None:
        super().__init__("Help.")

    @function_tool
    async def call_back(self, callback: Callable[[], None]) -> str:
        """Call back."""
        return "never"


def test_a_tools_model_is_built_once_for_all_agents_of_a_class() -> None:
    harness = SessionHarness(Plain(), ScriptedLLM())
    before = Plain()
    assert [tool.is_prepared for tool in before.tools] == [False]
    harness.run(until=1.0)
    assert [tool.is_prepared for tool in (*before.tools, *Plain().tools)] == [True, True]


def test_a_tool_that_no_model_can_be_told_fails_the_start_and_not_a_turn() -> None:
    harness = SessionHarness(Odd(), ScriptedLLM())
    with pytest.raises(ConfigurationError, match="tool 'call_back': no JSON schema"):
        harness.run(until=1.0)


def test_an_agent_with_such_a_tool_that_comes_later_takes_over_and_the_session_is_told() -> None:
    odd = Odd()
    harness = SessionHarness(Plain(), ScriptedLLM())

    async def scenario(harness: SessionHarness) -> None:
        await harness.session.update_agent(odd)
        assert harness.session.agent is odd

    harness.expects_error("tool").run(scenario)
    assert [(type(event.error), event.is_recovered) for event in harness.recording.of(ErrorOccurred)] == [
        (ConfigurationError, True)
    ]


class Filter:
    """Records the threads in which it is prepared."""

    def __init__(self) -> None:
        self.threads: list[str] = []
        self.has_begun = threading.Event()
        self.blocks = threading.Event()
        self.blocks.set()

    def may_change(self, text: str) -> bool:
        return False

    def prepare(self) -> None:
        self.threads.append(threading.current_thread().name)
        self.has_begun.set()
        self.blocks.wait(60.0)

    def __call__(self, text: str) -> str:
        return text


def speaking(with_filter: Filter) -> CascadingPipeline:
    return CascadingPipeline(
        llm=ScriptedLLM(), tts=ScriptedTTS(), options=CascadingOptions(text_filters=(with_filter,))
    )


def test_the_first_pipeline_and_one_that_comes_later_are_prepared_in_a_thread() -> None:
    first, later = Filter(), Filter()
    harness = SessionHarness(Agent("x"), pipeline=speaking(first))

    async def scenario(harness: SessionHarness) -> None:
        assert later.threads == []
        await harness.session.update_pipeline(speaking(later))

    harness.run(scenario)
    assert [*first.threads, *later.threads] == ["preparing-1", "preparing-1"]


def test_a_pipeline_with_nothing_left_to_prepare_starts_without_a_thread() -> None:
    class Ready(Filter):
        is_prepared = True

    assert not speaking(Filter()).is_prepared
    SessionHarness(Agent("x"), pipeline=speaking(Ready())).run()  # it has loaded the parts of any turn
    ready = Ready()
    assert speaking(ready).is_prepared
    SessionHarness(Agent("x"), pipeline=speaking(ready)).run()
    assert ready.threads == []


def test_the_default_filters_say_when_they_are_prepared() -> None:
    prepare_filters(DEFAULT_TEXT_FILTERS)
    assert are_prepared(DEFAULT_TEXT_FILTERS)
    assert are_prepared((str.upper,))
    assert not are_prepared((*DEFAULT_TEXT_FILTERS, Filter()))


def test_the_emoji_filter_is_not_prepared_by_another_library_s_import_of_regex() -> None:
    code = (
        "import regex; from vivavoce.pipelines.tts.text_filters import EmojiFilter; emoji = EmojiFilter(); "
        "print(emoji.is_prepared); emoji.prepare(); print(emoji.is_prepared)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=100, check=False)
    assert ran.stdout.split() == ["False", "True"], ran.stderr


async def test_a_preparation_that_hangs_fails_the_start_at_its_limit() -> None:
    hanging = Filter()
    hanging.blocks.clear()
    harness = SessionHarness(Agent("x"), pipeline=speaking(hanging), options=SessionOptions(start_step=0.2))
    try:
        with anyio.fail_after(60.0), pytest.raises(SessionError, match=r"not prepared within 0\.2 s"):
            async with harness:
                raise AssertionError("it started")
    finally:
        hanging.blocks.set()


async def test_a_close_does_not_wait_for_a_preparation_that_hangs() -> None:
    hanging = Filter()
    hanging.blocks.clear()
    harness = SessionHarness(Agent("x"), pipeline=speaking(hanging), options=SessionOptions(start_step=300.0))

    async def close() -> None:
        await anyio.to_thread.run_sync(hanging.has_begun.wait, 60.0)
        await harness.session.close()

    try:
        with anyio.fail_after(60.0):
            async with anyio.create_task_group() as group:
                group.start_soon(close)
                with pytest.raises(SessionError):
                    async with harness:
                        raise AssertionError("it started")
    finally:
        hanging.blocks.set()


def test_tools_of_a_handoff_are_prepared_before_the_agent_takes_over() -> None:
    came: list[bool] = []

    class Next(Agent):
        async def on_enter(self) -> None:
            came.extend(tool.is_prepared for tool in self.tools)

    async def order(dish: str) -> str:
        """Order a dish."""
        return dish

    class Host(Agent):
        @function_tool
        async def hand_over(self) -> Agent:
            """Hand over."""
            return Next("Serve.", tools=[order])

    harness = SessionHarness(
        Host("Greet."), ScriptedLLM([ToolCall(call_id="c1", name="hand_over", arguments="{}")], "Welcome.")
    )
    harness.caller.says("the waiter please", 0.5, 1.5)
    harness.run(until=5.0)
    assert came == [True]
