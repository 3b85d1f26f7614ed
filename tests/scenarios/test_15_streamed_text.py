"""`say` of a stream: one that stalls ends at the model's limits, and odd pieces neither hurt nor go unnoticed."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator
from typing import Any

import anyio
import pytest

from vivavoce.agents import Agent, SessionOptions, SpeechLimits
from vivavoce.agents.events import ErrorOccurred, WakeUpFired
from vivavoce.agents.testing import HANG, ScriptedLLM, SessionHarness
from vivavoce.pipelines.core.errors import ConfigurationError, ProviderTimeoutError
from vivavoce.pipelines.testing.script import wait

LIMITS = SessionOptions(speech=SpeechLimits(llm_first_token=3.0, llm_stall=2.0))


async def stream(*pieces: Any) -> AsyncGenerator[Any, None]:
    """Yield the pieces; a number is a wait in seconds."""
    for piece in pieces:
        if isinstance(piece, float):
            await wait(piece)
        else:
            yield piece


def failures(harness: SessionHarness) -> list[tuple[str, float]]:
    return [(event.source, round(event.at, 2)) for event in harness.recording.of(ErrorOccurred)]


@pytest.mark.parametrize(
    ("pieces", "fails_at"),
    [((HANG,), 3.0), (("One two. Three", HANG), 2.0), (("One two. ", *(0.5, "") * 20), 2.0)],
    ids=["before the first text", "between two texts", "empty pieces are no text"],
)
def test_a_stream_that_stalls_fails_at_the_models_limit_and_the_next_speech_is_heard(
    pieces: tuple[Any, ...], fails_at: float
) -> None:
    harness = SessionHarness(Agent("Help."), options=LIMITS)

    async def scenario(harness: SessionHarness) -> None:
        stalled = harness.session.say(stream(*pieces))
        following = harness.session.say("Still here.")
        await stalled
        assert stalled.outcome == "failed"
        assert isinstance(stalled.exception(), ProviderTimeoutError)
        assert re.search(r"3 s \(llm_first_token\).* 2 s .*\(llm_stall\)", str(stalled.exception()))
        await following
        assert following.outcome == "completed"

    harness.run(scenario)
    assert failures(harness) == [("text", fails_at)]


def test_a_stream_that_stalls_does_not_hold_up_the_wake_up() -> None:
    harness = SessionHarness(Agent("Help."), options=LIMITS, wake_up=5.0)

    async def scenario(harness: SessionHarness) -> None:
        _ = harness.session.say(stream("One two. ", HANG))
        await harness.until(10.0)

    harness.run(scenario)
    assert [event.at for event in harness.recording.of(WakeUpFired)] == pytest.approx([7.0])


def test_a_stream_that_stalls_while_it_is_protected_ends_too() -> None:
    harness = SessionHarness(Agent("Help."), options=LIMITS)

    async def scenario(harness: SessionHarness) -> None:
        stalled = harness.session.say(stream("One two. ", HANG), interruptible=False)
        await stalled
        assert stalled.outcome == "failed"

    harness.run(scenario)


def test_a_queued_stream_is_given_its_time_from_its_turn_on() -> None:
    harness = SessionHarness(Agent("Help."), options=LIMITS)

    async def scenario(harness: SessionHarness) -> None:
        _ = harness.session.say(" ".join(["word"] * 40))  # 8 s
        queued = harness.session.say(stream(1.0, "One two."))
        await queued
        assert (queued.outcome, queued.heard_text) == ("completed", "One two.")

    harness.run(scenario)


TEXT = "Dr. Smith pays 3.50 for it. Is that right? Yes!"


@pytest.mark.parametrize(
    "pieces",
    [list(TEXT), ["", *TEXT, ""], [TEXT, "   ", "\n"], ["  ", "\n", TEXT], [TEXT[:20], "", "", TEXT[20:]]],
    ids=["letters", "letters and empty ones", "blanks behind", "blanks before", "empty ones within"],
)
def test_a_stream_in_odd_pieces_is_heard_as_one_text(pieces: list[str]) -> None:
    harness = SessionHarness(Agent("Help."))

    async def scenario(harness: SessionHarness) -> None:
        speech = harness.session.say(stream(*pieces))
        await speech
        assert (speech.outcome, speech.heard_text.strip()) == ("completed", TEXT)

    harness.run(scenario)
    assert failures(harness) == []


@pytest.mark.parametrize("text", ["   ", "\n\n", "", stream("  ", "\n"), stream(""), stream()], ids=repr)
def test_a_text_of_nothing_but_blanks_is_over_at_once_and_the_session_goes_on(text: Any) -> None:
    harness = SessionHarness(Agent("Help."))

    async def scenario(harness: SessionHarness) -> None:
        speech = harness.session.say(text)
        await speech
        assert harness.now == pytest.approx(0.0, abs=0.1)
        assert speech.heard_text.strip() == ""
        await harness.session.say("Still here.")

    harness.run(scenario)
    assert failures(harness) == []
    assert harness.messages == [("assistant", "Still here.")]


@pytest.mark.parametrize("piece", [b"bytes", None, 7, ["a"]], ids=repr)
def test_a_stream_that_yields_something_else_than_text_fails_with_a_clear_error(piece: Any) -> None:
    harness = SessionHarness(Agent("Help."))

    async def scenario(harness: SessionHarness) -> None:
        speech = harness.session.say(stream("One two. ", piece, "Three."))
        await speech
        assert speech.outcome == "failed"
        assert isinstance(speech.exception(), ConfigurationError)
        assert str(speech.exception()) == f"say() needs a stream of str, got {type(piece).__name__}; yield its text"
        await harness.session.say("Still here.")

    harness.run(scenario)
    assert [source for source, _ in failures(harness)] == ["text"]


def test_a_text_of_many_thousand_words_is_said_to_its_end() -> None:
    text = " ".join(["Ten words are in this sentence, as you can see."] * 1000)
    harness = SessionHarness(Agent("Help."))

    async def scenario(harness: SessionHarness) -> None:
        speech = harness.session.say(text)
        await anyio.sleep(30.0)
        await harness.session.interrupt()
        assert speech.outcome == "interrupted"
        assert 120 < len(speech.heard_text.split()) < 160

    harness.run(scenario)


@pytest.mark.parametrize(
    "pieces",
    [list(TEXT), ["", *TEXT, ""], [TEXT, "   ", "\n"], ["  ", "\n", TEXT], [TEXT[:20], "", "", TEXT[20:]]],
    ids=["letters", "letters and empty ones", "blanks behind", "blanks before", "empty ones within"],
)
def test_an_answer_in_odd_pieces_is_heard_as_one_text(pieces: list[str]) -> None:
    harness = SessionHarness(Agent("Help."), ScriptedLLM([0.1, *pieces]))

    async def scenario(harness: SessionHarness) -> None:
        speech = harness.session.reply("Answer.")
        await speech
        assert (speech.outcome, speech.heard_text.strip()) == ("completed", TEXT)

    harness.run(scenario)
    assert failures(harness) == []


@pytest.mark.parametrize("pieces", [["   "], ["", "", ""], ["\n", " ", "\n"], []], ids=repr)
def test_an_answer_of_nothing_but_blanks_is_empty_and_the_session_goes_on(pieces: list[str]) -> None:
    harness = SessionHarness(Agent("Help."), ScriptedLLM([0.1, *pieces], [0.1, "All is well."]))

    async def scenario(harness: SessionHarness) -> None:
        speech = harness.session.reply("Answer.")
        await speech
        assert (speech.outcome, speech.heard_text) == ("completed", "")
        await harness.session.reply("Answer again.")

    harness.run(scenario)
    assert failures(harness) == []
    assert harness.session.turns[0].is_empty
    assert harness.messages == [("assistant", "All is well.")]


def test_a_reply_to_long_instructions_with_a_long_answer_without_any_full_stop_is_heard() -> None:
    answer = " ".join(f"word{number}" for number in range(600))
    harness = SessionHarness(
        Agent("Help."), ScriptedLLM([0.1, *(answer[at : at + 7] for at in range(0, len(answer), 7))])
    )

    async def scenario(harness: SessionHarness) -> None:
        speech = harness.session.reply("Say much. " * 20_000)
        await speech
        assert (speech.outcome, speech.heard_text) == ("completed", answer)

    harness.run(scenario)
    assert failures(harness) == []
