"""Agent: values from its class, and mistakes that show at its construction."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from vivavoce.agents import Agent, function_tool
from vivavoce.agents.agent import CompletedTurn
from vivavoce.pipelines.core.errors import ConfigurationError, SessionNotStartedError
from vivavoce.pipelines.media.frame import AudioFrame

if TYPE_CHECKING:
    from decimal import Decimal


class Base(Agent):
    @function_tool
    async def look(self, day: str) -> str:
        """Look a day up."""
        return day


class Host(Base):
    @function_tool(name="reserve")
    async def book(self, day: str) -> str:
        """Book."""
        return day


def test_tools_are_the_marked_methods_inherited_ones_included_and_those_given() -> None:
    def weather(city: str) -> str:
        """Tell the weather."""
        return city

    assert [tool.name for tool in Host("Help.", tools=[weather]).tools] == ["look", "reserve", "weather"]


def test_two_tools_of_one_name_are_refused() -> None:
    def look(city: str) -> str:
        """Look."""
        return city

    with pytest.raises(ConfigurationError, match="'look'"):
        Base("Help.", tools=[look])


def test_a_tool_parameter_without_a_type_hint_is_refused_when_the_agent_is_made() -> None:
    def count(number) -> str:  # type: ignore[no-untyped-def]  # the mistake under test
        """Count."""
        return str(number)

    with pytest.raises(ConfigurationError, match="parameter 'number' needs a type hint"):
        Agent("Help.", tools=[count])


def test_a_type_hint_that_is_not_there_at_run_time_is_refused_when_the_agent_is_made() -> None:
    def pay(amount: Decimal) -> str:
        """Pay."""
        return str(amount)

    with pytest.raises(ConfigurationError, match="'Decimal'.*TYPE_CHECKING"):
        Agent("Help.", tools=[pay])


def test_an_agent_outside_a_session_says_so() -> None:
    with pytest.raises(SessionNotStartedError, match="in no session"):
        _ = Host("Help.").session


# --- hooks that a session could not call


def test_a_hook_with_other_parameters_is_refused_where_its_class_is_written() -> None:
    with pytest.raises(ConfigurationError) as refused:

        class Ported(Agent):
            async def on_user_turn_completed(self, turn_ctx, new_message):  # type: ignore[no-untyped-def,override]
                """Take the arguments of another framework."""

    text = str(refused.value)
    assert "Ported.on_user_turn_completed is called with (self, turn)" in text
    assert "got on_user_turn_completed(self, turn_ctx, new_message) (at " in text
    assert f"{__file__}:" in text


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("on_enter", "(self)"),
        ("on_exit", "(self)"),
        ("cleanup", "(self)"),
        ("on_user_turn_completed", "(self, turn)"),
        ("on_empty_reply", "(self, reply)"),
        ("on_stream", "(self, stream, item)"),
        ("stt_stage", "(self, transcripts)"),
        ("llm_stage", "(self, request, generate)"),
        ("tts_stage", "(self, text, speak)"),
        ("on_speech_in", "(self, frame)"),
        ("on_speech_out", "(self, frame)"),
    ],
)
def test_each_hook_is_checked_for_too_many_and_too_few_parameters(name: str, given: str) -> None:
    def no_self() -> None: ...
    def six(self: Agent, a: int, b: int, c: int, d: int, e: int) -> None: ...

    for hook in (no_self, six):
        with pytest.raises(ConfigurationError, match=f"Odd.{name} is called with ") as refused:
            type("Odd", (Agent,), {name: hook})
        assert given in str(refused.value)


def test_a_hook_of_a_mixin_is_checked_too() -> None:
    class Greeting:
        async def on_enter(self, words: str) -> None: ...

    with pytest.raises(ConfigurationError, match=r"Host.on_enter is called with \(self\)"):
        type("Host", (Greeting, Agent), {})


def test_a_hook_may_have_other_names_defaults_any_arguments_and_decorators() -> None:
    def injected(hook: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(hook)
        async def call(self: Agent, *given: Any) -> None:
            await hook(self, *given, "the database")

        return call

    class Free(Agent):
        async def on_enter(self, words: str = "Hello.") -> None: ...

        async def on_exit(self, *given: Any, **named: Any) -> None: ...

        @injected
        async def on_user_turn_completed(self, finished: CompletedTurn, database: str) -> None: ...

        @staticmethod
        def on_speech_in(frame: AudioFrame) -> None: ...

    assert Free("Help.").id == "Free"


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("stt_node", "the hook of that stage is stt_stage(self, transcripts)"),
        ("llm_node", "the hook of that stage is llm_stage(self, request, generate)"),
        ("tts_node", "the hook of that stage is tts_stage(self, text, speak)"),
        ("transcription_node", "there is no stage that changes captions only"),
        ("realtime_audio_output_node", "the hook of that stage is llm_stage(self, request, generate)"),
    ],
)
def test_a_stage_that_is_named_as_livekit_names_it_is_a_warning_with_our_name_if_there_is_one(
    name: str, remedy: str, caplog: pytest.LogCaptureFixture
) -> None:
    def node(self: Agent, *given: Any) -> None: ...

    ported = type("Ported", (Agent,), {name: node})
    ported("Help.")
    type("Other", (ported,), {})("Help.")
    (record,) = caplog.records
    assert record.getMessage() == f"The session does not call Ported.{name}; {remedy}"


def test_a_dataclass_with_slots_whose_class_python_makes_twice_is_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    @dataclass(slots=True)
    class Ported(Agent):
        table: int

        def llm_node(self) -> None: ...

    assert "table" in vars(Ported)["__slots__"]
    assert len(caplog.records) == 1


def day(day: str) -> str:
    return day


def untyped(day, time: str) -> str:  # type: ignore[no-untyped-def]
    return f"{day} {time}"


def named_self(self: Any, day: str) -> str:
    return day


def nothing() -> str:
    return ""


def only_named(*, day: str) -> str:
    return day


@pytest.mark.parametrize(
    ("function", "got"), [(day, "'day'"), (nothing, "none"), (only_named, "'day'"), (untyped, "'day'")]
)
def test_a_method_under_function_tool_without_self_is_refused_where_its_class_is_written(
    function: Callable[..., str], got: str
) -> None:
    with pytest.raises(ConfigurationError) as caught:
        type("Desk", (Agent,), {"book": function_tool(function)})
    needed = f"tool Desk.{function.__name__} is a method and needs self as its first parameter, got {got}; add self"
    assert str(caught.value).startswith(needed)


def test_a_tool_without_self_in_a_mixin_is_refused_too() -> None:
    mixin = type("Mixin", (), {"book": function_tool(day)})
    with pytest.raises(ConfigurationError, match="needs self"):
        type("Desk", (mixin, Agent), {})


def logged(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(*args: Any) -> Any:
        return function(*args)

    return call


@pytest.mark.parametrize("kind", [staticmethod, classmethod, property, functools.cached_property])
def test_a_decorator_that_would_hide_a_tool_is_refused_where_the_class_is_written(kind: Callable[..., Any]) -> None:
    needed = f"tool Desk.book needs to be a method with self, got a {kind.__name__}; leave that out and add self, or "
    with pytest.raises(ConfigurationError, match=needed):
        type("Desk", (Agent,), {"book": kind(function_tool(day))})
    with pytest.raises(ConfigurationError, match="hidden by the decorator above it; write @function_tool at the top"):
        type("Desk", (Agent,), {"book": logged(function_tool(day))})


@pytest.mark.parametrize("kind", [staticmethod, classmethod])
def test_function_tool_above_staticmethod_or_classmethod_is_refused(kind: Callable[..., Any]) -> None:
    with pytest.raises(ConfigurationError, match=f"tool day needs to be a method with self, got a {kind.__name__}"):
        function_tool(kind(day))


def test_a_tool_without_self_of_another_object_is_refused_with_its_agent() -> None:
    kit = type("Kit", (), {"book": function_tool(untyped)})()
    with pytest.raises(ConfigurationError, match=r"tool Kit\.untyped is a method and needs self"):
        Agent("Help.", tools=[kit.book])


def test_a_function_of_a_module_that_names_its_first_parameter_self_is_a_method_where_it_is_in_a_class() -> None:
    desk = type("Desk", (Agent,), {"book": function_tool(named_self)})("Help.")
    assert desk.book("friday") == "friday"


class Desk(Agent):
    @function_tool
    def one(this, day: str) -> str:
        return day

    @function_tool
    def two(self: Desk, day: str) -> str:
        return day


def test_self_may_have_another_name_or_a_type_hint_and_a_function_outside_needs_none() -> None:
    assert [tool.name for tool in Desk("Help.", tools=[day]).tools] == ["one", "two", "day"]
