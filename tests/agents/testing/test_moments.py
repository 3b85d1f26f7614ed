"""Expectations on silence, false interruptions, missing transcripts and wake-ups; times with a tolerance."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from vivavoce.agents import Agent, WakeUp
from vivavoce.agents.testing import ScriptedLLM, SessionHarness


class Host(Agent):
    async def on_enter(self) -> None:
        await self.session.say("one two three four five six seven eight nine ten")


def noisy() -> SessionHarness:
    """The greeting from 0.2, held by noise from 1.0 to 2.0 and so until 3.0; noise from 5.0 to 6.0."""
    harness = SessionHarness(Host("x"))
    harness.caller.makes_noise(1.0, 2.0)
    harness.caller.makes_noise(5.0, 6.0)
    return harness.run(until=9.0)


def test_silence_false_interruptions_and_missing_transcripts_are_expected_at_their_times() -> None:
    expect = noisy().expect
    expect.silent_between(1.6, 3.0).silent_between(4.0, 9.0).next_message(
        "one two three four five six seven eight nine ten"
    )
    expect.false_interruption(at=3.0).no_false_interruption()
    expect.transcript_missing().transcript_missing(at=7.0).no_transcript_missing().no_wake_up()


def test_wake_ups_are_expected_by_level_and_time() -> None:
    harness = SessionHarness(Agent("x"), wake_up=WakeUp(after=2.0, repeat=2, backoff=2.0))
    expect = harness.run(until=10.0).expect
    expect.wake_up(1, at=2.0).wake_up(2, at=6.0).no_wake_up()


Expectation = Callable[[SessionHarness], object]


@pytest.mark.parametrize(
    ("fails", "told"),
    [
        (
            lambda h: h.expect.silent_between(1.0, 2.5),
            r"silence from 1 s to 2\.5 s\ncame instead: the agent sounded from",
        ),
        (
            lambda h: h.expect.false_interruption(at=2.0),
            r"false interruption at 2 s, ± 0\.02\ncame instead: one at 3 s",
        ),
        (lambda h: h.expect.no_false_interruption(), "expected no false interruption\ncame instead: one at 3 s"),
        (lambda h: h.expect.no_transcript_missing(), "expected no missing transcript\ncame instead: one at"),
        (lambda h: h.expect.wake_up(), "expected a wake-up\ncame instead: none"),
    ],
)
def test_a_failure_says_what_came_instead_and_passes_nothing_by(fails: Expectation, told: str) -> None:
    harness = noisy()
    for _ in range(2):
        with pytest.raises(AssertionError, match=told):
            fails(harness)


def test_a_wake_up_of_another_level_is_not_passed_by() -> None:
    expect = SessionHarness(Agent("x"), wake_up=2.0).run(until=3.0).expect
    with pytest.raises(AssertionError, match="expected a wake-up of level 2\ncame instead: level 1 at 2 s"):
        expect.wake_up(2)
    expect.wake_up(1)


def test_a_silence_has_a_beginning_and_an_end() -> None:
    with pytest.raises(ValueError, match="a silence needs"):
        SessionHarness(Agent("x")).run().expect.silent_between(2.0, 1.0)


def test_exact_times_are_compared_with_a_tolerance() -> None:
    harness = SessionHarness(Agent("x"), ScriptedLLM("One two three."))
    harness.caller.says("hello", 0.1 + 0.2, 1.1)  # 0.30000000000000004
    harness.run(until=4.0).expect_states("user", ("speaking", 0.3), ("idle", 1.1), ("listening", 1.7), ("idle", 2.3))
    harness.expect_played((1.7, 0.6004)).expect_played((1.69, 0.6), tolerance=0.02)
    with pytest.raises(AssertionError, match="played audio: expected"):
        harness.expect_played((1.69, 0.6))
    with pytest.raises(AssertionError, match="played audio: expected"):
        harness.expect_played()
