"""Application code that raises something beside an exception: one error event with its source, and the call goes on."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from kit.tasks import GIVE, ORDER, Front, GetAddress
from vivavoce.agents import Agent, AgentOverrides, ContentGuard, ConversationFlow, SessionOptions
from vivavoce.agents.events import ErrorOccurred
from vivavoce.agents.tasks import TaskOptions
from vivavoce.agents.testing import ScriptedLLM, SessionHarness
from vivavoce.agents.turn.options import InterruptionOptions


class Stop(BaseException):
    """Passes every `except Exception`."""


EXITS = [
    SystemExit(3),
    KeyboardInterrupt(),
    GeneratorExit(),
    Stop(),
    BaseExceptionGroup("two", [SystemExit(3), ValueError()]),
]


def raising(error: BaseException) -> Callable[..., Any]:
    def leave(*_: object) -> Any:
        raise error

    return leave


def calling(agent: Agent | None = None, *answers: Any, **given: Any) -> SessionHarness:
    harness = SessionHarness(agent or Agent("Help."), ScriptedLLM(*(answers or ("Sure.",)), delay=0.1), **given)
    harness.caller.says("hello", 0.5, 1.0)
    return harness


def check(harness: SessionHarness, source: str) -> None:
    harness.expects_error(source)
    harness.run(until=6.0)
    (error,) = harness.recording.of(ErrorOccurred)
    assert error.source == source
    assert "ended with" in str(error.error)
    assert harness.messages[0] == ("user", "hello")


def answered(harness: SessionHarness) -> None:
    assert ("assistant", "Sure.") in harness.messages


@pytest.mark.parametrize("error", EXITS)
def test_in_a_context_policy(error: BaseException) -> None:
    harness = calling(options=SessionOptions(context_window=raising(error)))
    check(harness, "context_window")
    answered(harness)


@pytest.mark.parametrize("error", EXITS)
def test_in_the_context_of_an_agent(error: BaseException) -> None:
    harness = calling()
    harness.expects_error("context")

    async def scenario(harness: SessionHarness) -> None:
        await harness.session.update_agent(
            Agent("Other.", overrides=AgentOverrides(context=raising(error)), id="other")
        )

    harness.run(scenario, until=4.0)
    answered(harness)


@pytest.mark.parametrize("error", EXITS)
def test_in_a_content_guard(error: BaseException) -> None:
    check(calling(options=SessionOptions(guard=ContentGuard(judge=raising(error), caller=False))), "guard")


@pytest.mark.parametrize("error", EXITS)
def test_in_the_summary_of_a_task(error: BaseException) -> None:
    class Summing(GetAddress):
        summary = raising(error)

    front = Front([], lambda: Summing([], options=TaskOptions(history="summary")))
    harness = SessionHarness(front, ScriptedLLM([ORDER], [GIVE], "Done.", delay=0.1))
    harness.expects_error("hook")
    harness.caller.says("order please", 0.5, 1.5)
    harness.caller.says("five High Street", 4.0, 5.0)
    harness.run(until=9.0)
    assert harness.messages[-1] == ("assistant", "Done.")


@pytest.mark.parametrize("error", EXITS)
def test_in_a_flow(error: BaseException) -> None:
    class Flow(ConversationFlow):
        async def run(self, transcript: str) -> AsyncIterator[str]:
            yield "Sure."
            raise error

    check(calling(conversation_flow=Flow()), "flow")


@pytest.mark.parametrize("error", EXITS)
def test_in_a_text_that_is_said(error: BaseException) -> None:
    async def text() -> AsyncIterator[str]:
        yield "One. "
        raise error

    harness = calling()
    harness.expects_error("text")

    async def scenario(harness: SessionHarness) -> None:
        await harness.session.say(text())

    harness.run(scenario, until=4.0)
    answered(harness)


@pytest.mark.parametrize("error", EXITS)
def test_in_a_hook_of_a_turn(error: BaseException) -> None:
    class Leaving(Agent):
        on_user_turn_completed = raising(error)

    harness = calling(Leaving("Help."))
    check(harness, "hook")
    answered(harness)


@pytest.mark.parametrize("error", EXITS)
def test_in_handlers_and_callbacks(error: BaseException) -> None:
    class Hearing(Agent):
        on_speech_in = raising(error)

    harness = calling(Hearing("Help."))
    harness.expects_error("handler")
    harness.expects_error("hook")

    async def scenario(harness: SessionHarness) -> None:
        harness.session.on("speech_created", raising(error))
        handle = harness.session.say("Hi.")
        handle.add_done_callback(raising(error))
        await handle

    harness.run(scenario, until=4.0)
    answered(harness)


@pytest.mark.parametrize("error", EXITS)
def test_in_the_judgement_of_backchannels(error: BaseException) -> None:
    interruption = InterruptionOptions(backchannels=raising(error))
    harness = calling(
        None,
        "one two three four five six seven eight nine ten.",
        "Sure.",
        options=SessionOptions(interruption=interruption),
    )
    harness.caller.says("stop it", 2.5, 3.2)
    harness.expects_error()
    harness.run(until=6.0)
    answered(harness)
