"""Scenarios 7 to 11: the user sounds while the agent speaks or thinks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from vivavoce.agents import Agent, SpeechHandle
from vivavoce.agents.events import FalseInterruption, HistoryItemReplaced
from vivavoce.agents.testing import ScriptedLLM, ScriptedTTS, SessionHarness

TEN_WORDS = "one two three four five six seven eight nine ten."


def speaking(*answers: str, words: bool = True) -> SessionHarness:
    return SessionHarness(Agent("Count."), ScriptedLLM(*answers, delay=0.1), tts=ScriptedTTS(emits_words=words))


def say_at_one(**options: Any) -> tuple[Callable[[SessionHarness], Any], list[SpeechHandle]]:
    """Return a scenario that says ten words at 1.0, heard from 1.2 to 3.2, and a list for the handle."""
    handles: list[SpeechHandle] = []

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(1.0)
        handles.append(harness.session.say(TEN_WORDS, **options))

    return scenario, handles


def test_a_short_backchannel_does_not_cut_the_agent() -> None:
    harness = speaking()
    scenario, handles = say_at_one()
    harness.caller.says("mhm", 1.6, 1.9, final_at=2.1)
    harness.run(scenario, until=5.0)
    harness.expect_played((1.2, 2.0)).expect_outcomes("completed")
    harness.expect_states("agent", ("speaking", 1.2), ("idle", 3.2))
    harness.expect_states("user", ("listening", 1.2), ("speaking", 1.6), ("listening", 1.9), ("idle", 3.2))
    harness.expect_history(("user", "mhm"), ("assistant", TEN_WORDS))
    assert harness.session.history.messages("user")[0].backchannel
    assert handles[0].played_seconds == 2.0
    assert harness.llm.requests == []


def test_words_that_take_the_floor_pause_the_agent_then_cut_it_to_the_word() -> None:
    harness = speaking("All right.")
    scenario, handles = say_at_one()
    harness.caller.says("wait stop", 1.6, 2.2, final_at=2.4)
    harness.run(scenario, until=5.0)
    assert handles[0].outcome == "interrupted"
    assert handles[0].heard_text == "one two three four"
    assert round(handles[0].played_seconds, 6) == 0.9
    harness.expect_played((1.2, 0.95), (2.9, 0.4))  # paused at 2.1 with a fade of 0.05
    harness.expect_states(
        "agent", ("speaking", 1.2), ("listening", 2.4), ("thinking", 2.6), ("speaking", 2.9), ("idle", 3.3)
    )
    harness.expect_states(
        "user",
        ("listening", 1.2),
        ("speaking", 1.6),
        ("listening", 2.2),
        ("idle", 2.4),
        ("listening", 2.9),
        ("idle", 3.3),
    )
    harness.expect_history(
        ("assistant", "one two three four"), ("user", "wait stop"), ("assistant", "All right.")
    ).expect_outcomes("interrupted", "completed")
    assert harness.session.history.messages("assistant")[0].interrupted


def test_the_model_is_told_of_the_interruption_in_the_request_and_not_in_the_stored_text() -> None:
    harness = speaking("All right.")
    scenario, _ = say_at_one()
    harness.caller.says("wait stop", 1.6, 2.2, final_at=2.4)
    harness.run(scenario, until=5.0)
    told = [message for message in harness.llm.requests[0].context.messages("assistant") if message.interrupted]
    assert [message.content for message in told] == ["one two three four"]


def test_short_words_that_are_no_backchannel_pause_at_their_final_and_interrupt_when_their_turn_commits() -> None:
    harness = speaking("All right.")
    scenario, handles = say_at_one()
    harness.caller.says("stop", 1.6, 1.9, final_at=2.1)
    harness.run(scenario, until=5.0)
    harness.expect_played((1.2, 0.95), (2.6, 0.4))  # paused at 2.1, with a fade of 0.05; the turn commits at 2.3
    assert handles[0].heard_text == "one two three four"
    harness.expect_history(
        ("assistant", "one two three four"), ("user", "stop"), ("assistant", "All right.")
    ).expect_outcomes("interrupted", "completed")


def test_a_long_backchannel_resumes_the_agent_at_its_final() -> None:
    harness = speaking()
    scenario, _ = say_at_one()
    harness.caller.says("yeah right okay", 1.6, 2.4, final_at=2.6)
    harness.run(scenario, until=6.0)
    harness.expect_played((1.2, 0.95), (2.6, 1.1)).expect_outcomes("completed")
    harness.expect_history(("user", "yeah right okay"), ("assistant", TEN_WORDS))


def test_noise_pauses_the_agent_which_goes_on_at_the_same_sample() -> None:
    harness = speaking()
    scenario, handles = say_at_one()
    harness.caller.makes_noise(1.6, 2.6)
    harness.run(scenario, until=6.0)
    harness.expect_played((1.2, 0.95), (3.6, 1.1)).expect_outcomes("completed")
    harness.expect_states("agent", ("speaking", 1.2), ("idle", 4.7))
    harness.expect_states("user", ("listening", 1.2), ("speaking", 1.6), ("listening", 2.6), ("idle", 4.7))
    harness.expect_history(("assistant", TEN_WORDS))
    assert handles[0].played_seconds == 2.0
    assert [round(event.at, 6) for event in harness.recording.of(FalseInterruption)] == [3.6]


def test_short_noise_during_speech_changes_nothing_that_is_heard() -> None:
    harness = speaking()
    scenario, _ = say_at_one()
    harness.caller.makes_noise(1.6, 1.9)
    harness.run(scenario, until=6.0)
    harness.expect_played((1.2, 2.0)).expect_outcomes("completed")
    assert harness.recording.of(FalseInterruption) == []


def thinking(*answers: str) -> SessionHarness:
    harness = SessionHarness(Agent("Help."), ScriptedLLM(*answers, delay=0.1))
    harness.caller.says("I want coffee", 0.5, 2.5)  # committed 2.9, the answer would be heard at 3.2
    return harness


def test_short_noise_while_thinking_holds_the_answer_back_until_it_is_over() -> None:
    harness = thinking("Coming at once.")
    harness.caller.makes_noise(3.0, 3.2)
    harness.run(until=8.0)
    harness.expect_played((3.4, 0.6))
    harness.expect_history(("user", "I want coffee"), ("assistant", "Coming at once.")).expect_outcomes("completed")
    assert [pair for pair in harness.states if pair[0] == "agent" and 2.9 <= pair[2] <= 3.4] == [
        ("agent", "thinking", 2.9),
        ("agent", "speaking", 3.4),
    ]


def test_long_noise_while_thinking_lets_the_answer_out_after_the_false_timeout() -> None:
    harness = thinking("Coming at once.")
    harness.caller.makes_noise(3.0, 3.6)
    harness.run(until=8.0)
    harness.expect_played((4.6, 0.6)).expect_outcomes("completed")
    harness.expect_history(("user", "I want coffee"), ("assistant", "Coming at once."))


def test_words_while_thinking_drop_the_unheard_answer_and_merge_into_one_turn() -> None:
    harness = thinking("Coffee, at once.", "Coffee and tea.")
    harness.caller.says("and tea", 3.0, 3.6, final_at=3.8)
    harness.run(until=8.0)
    harness.expect_played((4.3, 0.6)).expect_outcomes("completed")
    harness.expect_history(("user", "I want coffee and tea"), ("assistant", "Coffee and tea."))
    assert len({message.turn_id for message in harness.session.history.messages()}) == 1
    replaced = harness.recording.of(HistoryItemReplaced)
    assert [event.item.id for event in replaced] == [harness.session.history.messages("user")[0].id]


def test_overlap_with_the_last_100_ms_cuts_nothing_and_is_a_turn_of_its_own() -> None:
    harness = speaking("All right.")
    scenario, handles = say_at_one()
    harness.caller.says("do that please", 3.1, 4.1, final_at=4.3)
    harness.run(scenario, until=7.0)
    assert handles[0].outcome == "completed"
    harness.expect_played((1.2, 2.0), (4.8, 0.4))
    harness.expect_history(("assistant", TEN_WORDS), ("user", "do that please"), ("assistant", "All right."))
    harness.expect_states(
        "agent", ("speaking", 1.2), ("listening", 3.2), ("thinking", 4.5), ("speaking", 4.8), ("idle", 5.2)
    ).expect_outcomes("completed", "completed")


def test_words_during_protected_speech_cut_nothing_and_are_answered_afterwards() -> None:
    harness = speaking("All right.")
    scenario, handles = say_at_one(interruptible=False)
    harness.caller.says("hello stop", 1.6, 2.2, final_at=2.4)
    harness.run(scenario, until=7.0)
    assert handles[0].outcome == "completed"
    harness.expect_played((1.2, 2.0), (3.5, 0.4))
    harness.expect_history(("assistant", TEN_WORDS), ("user", "hello stop"), ("assistant", "All right."))
    harness.expect_states("agent", ("speaking", 1.2), ("thinking", 3.2), ("speaking", 3.5), ("idle", 3.9))
