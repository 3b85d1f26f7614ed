"""`check_laws()` passes on a conversation that is in order, and finds each law broken."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import anyio
import pytest

from vivavoce.agents import Agent, AgentSession, function_tool
from vivavoce.agents.agent import CompletedTurn
from vivavoce.agents.events import (
    AgentChanged,
    AgentStateChanged,
    TranscriptMissing,
    TurnCompleted,
    UserStateChanged,
    UserTranscript,
    WakeUpFired,
)
from vivavoce.agents.records import TurnRecord
from vivavoce.agents.states import AgentState, UserState
from vivavoce.agents.testing import Played, Recording, ScriptedLLM, ScriptedRealtimeModel, SessionHarness, ToolCall
from vivavoce.agents.testing.laws import LAWS, Observed, breaches
from vivavoce.pipelines.llm.chat_context import FunctionCall


class Desk(Agent):
    @function_tool
    async def to_billing(self) -> Agent:
        """Hand over."""
        return Agent("You bill.", id="billing")

    async def on_enter(self) -> None:
        await self.session.say("Hello there.")


HAND_OVER = ToolCall(call_id="c9", name="to_billing", arguments="{}")


def conversation() -> SessionHarness:
    """Greeting from 0.2; a turn that is cut at 4.0, one that hands over, wake-ups, and a farewell in the close."""
    llm = ScriptedLLM("One two three four five six seven eight nine ten.", [HAND_OVER], "Billing.", "As you wish.")
    harness = SessionHarness(Desk("x"), llm, wake_up=3.0)
    harness.caller.says("count please", 1.5, 2.5)
    harness.caller.says("stop it now please", 3.4, 4.6)
    harness.caller.types("thank you", 7.0)
    return harness.run(until=14.0)


def test_a_conversation_that_is_in_order_keeps_the_laws() -> None:
    conversation().check_laws()


def test_a_realtime_conversation_keeps_them_too() -> None:
    model = ScriptedRealtimeModel("Hello there.", hears=["hi"])
    harness = SessionHarness(Agent("x"), model=model)

    async def scenario(harness: SessionHarness) -> None:
        await harness.session.reply("Greet.")

    harness.run(scenario).check_laws()


def observed() -> Observed:
    harness = conversation()
    recording = Recording()
    for event in harness.recording.events:
        recording.add(event)
    items = harness.recording.items()
    recording.items = lambda: items  # type: ignore[method-assign]
    recording.agents = [Agent("x")]
    return Observed(
        recording=recording,
        played=harness.played,
        spoken=harness.tts.texts,
        seconds_per_word=0.2,
        typed=["thank you"],
    )


def again(seen: Observed, kind: type) -> Observed:
    seen.recording.add(seen.recording.of(kind)[-1])
    return seen


def late(kind: Callable[..., Any], **fields: object) -> Any:
    """An event at the end of the run."""
    return kind(at=13.0, sequence=999, **fields)


def adds(*events: Any) -> Callable[[Observed], Observed]:
    def change(seen: Observed) -> Observed:
        for event in events:
            seen.recording.add(event)
        return seen

    return change


def ghost(name: str, kind: str) -> Any:
    record = TurnRecord(turn_id=name, kind=kind, outcome="completed", interrupted=False, e2e_latency=None)  # type: ignore[arg-type]
    return late(TurnCompleted, record=record)


IDLE, SPEAKING, THINKING = AgentState.IDLE, AgentState.SPEAKING, AgentState.THINKING


@pytest.mark.parametrize(
    ("law", "breaks", "told"),
    [
        ("outcomes", lambda seen: again(seen, TurnCompleted), "had 2 outcomes"),
        ("outcomes", adds(ghost("ghost", "say")), r"ghost \(say\) had an outcome, and was never begun"),
        ("speaking", lambda seen: replace(seen, played=[]), "was speaking from .* and no frame played"),
        ("speaking", lambda seen: replace(seen, played=[*seen.played, Played(13.5, 0.1)]), r"sounded from 13\.5 s"),
        (
            "heard_text",
            lambda seen: replace(seen, played=seen.played[:1]),
            "messages take .* s to say, and .* were played",
        ),
        ("user_words", adds(late(UserTranscript, text="lost words", is_final=True)), "word 'lost' is in no message"),
        (
            "tools",
            lambda seen: replace(seen, requests=[[FunctionCall(call_id="c", name="x", arguments="{}")]]),
            "request 1 has 1",
        ),
        ("handoffs", adds(late(AgentChanged, old="Desk", agent="sales")), "'billing' had the conversation, and 'Desk'"),
        ("wake_ups", adds(late(WakeUpFired, level=7)), "had level 7, after"),
        (
            "wake_ups",
            adds(late(AgentStateChanged, old=IDLE, state=SPEAKING), late(WakeUpFired, level=1)),
            "found the agent speaking",
        ),
        ("states", adds(late(AgentStateChanged, old=SPEAKING, state=THINKING)), "the agent left speaking, and was"),
        (
            "states",
            adds(late(UserStateChanged, old=UserState.SPEAKING, state=UserState.SPEAKING)),
            "the user went from speaking to speaking",
        ),
        ("close", adds(late(TranscriptMissing)), "transcript_missing came after the close"),
        ("close", lambda seen: replace(seen, timers_left=2), r"2 timer\(s\) wait after the close"),
        ("close", lambda seen: replace(seen, played=[*seen.played, Played(99.0, 0.1)]), "99 s, after the close"),
    ],
)
def test_a_broken_law_is_found(law: str, breaks: Callable[[Observed], Observed], told: str) -> None:
    seen = observed()
    assert breaches(seen) == []
    broken = breaches(breaks(seen), without=[name for name in LAWS if name != law])
    assert any(line.startswith(f"{law}: ") and re.search(told, line) for line in broken), broken


def test_a_message_that_holds_words_twice_is_found() -> None:
    seen = observed()
    items = seen.recording.items()
    seen.recording.items = lambda: (*items, *items)  # type: ignore[method-assign]
    assert any("is in the messages 2 times" in line for line in breaches(seen))


def test_an_agent_whose_hook_may_change_words_is_not_held_to_them() -> None:
    class Editing(Agent):
        async def on_user_turn_completed(self, turn: CompletedTurn) -> None:
            turn.text = "something else"

    harness = SessionHarness(Editing("x"), ScriptedLLM("I see."))
    harness.caller.says("my pin is one", 1.0, 2.0)
    harness.run(until=5.0).check_laws()


def test_a_timer_that_the_application_leaves_behind_breaks_a_law() -> None:
    class Forgetful(Agent):
        async def on_enter(self) -> None:
            asyncio.get_running_loop().call_later(100.0, print)

    harness = SessionHarness(Forgetful("x")).run(until=1.0)
    with pytest.raises(
        AssertionError, match=r"1 breach\(es\) of the laws:\n  close: 1 timer\(s\) wait .*\nthe conversation"
    ):
        harness.check_laws()
    harness.check_laws(without=["close"])


def test_a_law_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ValueError, match=r"needed names of laws, outcomes, .*, got \['law'\]"):
        SessionHarness(Agent("x")).run().check_laws(without=["law"])


def test_laws_are_checked_when_the_run_is_over() -> None:
    async def scenario(harness: SessionHarness) -> None:
        await anyio.sleep(1.0)
        with pytest.raises(RuntimeError, match="when the run is over"):
            harness.check_laws()
        assert isinstance(harness.session, AgentSession)

    SessionHarness(Agent("x")).run(scenario)
