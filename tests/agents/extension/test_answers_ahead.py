"""Extensions and the answers that are begun before a turn is over."""

from __future__ import annotations

import anyio
import pytest

from kit.extensions import Look, Looking, Second, answering, drop, nothing
from vivavoce.agents import Agent, SessionOptions, SpeechLimits
from vivavoce.agents.events import ErrorOccurred
from vivavoce.agents.extension.extension import Extension, Host
from vivavoce.agents.extension.turn_in_hand import TurnInHand
from vivavoce.agents.testing import ScriptedLLM, ScriptedTTS, SessionHarness
from vivavoce.pipelines.testing import StepItem

ANSWER = "We have soup."


async def add(host: Host, turn: TurnInHand) -> None:
    """Give material, after some time."""
    await anyio.sleep(0.1)
    turn.add(f"about {turn.text.lower()}")


def ask(
    *extensions: Extension,
    steps: tuple[str | list[StepItem], ...] = ([0.5, ANSWER],),
    interims: tuple[tuple[float, str], ...] = (),
    final_at: float = 2.7,
    speech: SpeechLimits | None = None,
) -> SessionHarness:
    """A turn from 0.5 to 2.5 s: an answer is begun at 2.7 s, with its final words, and the turn is over at 2.9 s."""
    options = SessionOptions(extensions=extensions, speech=speech or SpeechLimits())
    harness = SessionHarness(Agent("Be nice."), ScriptedLLM(*steps), tts=ScriptedTTS(first_byte=0.2), options=options)
    harness.preemptive = True
    harness.caller.says("hello there", 0.5, 2.5, final_at=final_at, interims=interims)
    return harness


def part(harness: SessionHarness, kind: type[Extension] = Look) -> Looking:
    looking = harness.session.extension(kind)
    assert isinstance(looking, Looking)
    return looking


def asked_at(harness: SessionHarness) -> list[float]:
    return [round(at, 6) for at in harness.llm.requested_at]


def test_where_one_must_know_the_turn_no_answer_is_begun_ahead() -> None:
    harness = ask(Look(add)).run(until=6.0)
    assert asked_at(harness) == [3.0]
    assert part(harness).turns == [(2.9, "hello there", False)]


def test_where_none_judges_answers_are_begun_ahead_and_used() -> None:
    harness = ask(Look(judges="nothing")).run(until=6.0)
    assert asked_at(harness) == [2.7]
    assert part(harness).turns == [(2.9, "hello there", False)]
    assert harness.session.turns[-1].preemptive


def test_an_answer_begun_without_the_material_is_not_used() -> None:
    harness = ask(Look(add, judges="nothing"), steps=("Wrong.", ANSWER)).run(until=6.0)
    assert asked_at(harness) == [2.7, 3.0]
    assert not harness.session.turns[-1].preemptive
    harness.expect_history(("user", "hello there"), ("assistant", ANSWER))


def test_one_that_judges_words_looks_at_them_ahead_and_not_again() -> None:
    harness = ask(Look(add, judges="words")).run(until=6.0)
    assert part(harness).turns == [(2.7, "hello there", True)]
    assert part(harness).undone == []
    assert asked_at(harness) == [2.8]
    (request,) = harness.llm.requests
    assert request.extra_instructions == "Material for this answer:\n<material>\nabout hello there\n</material>"
    assert harness.session.turns[-1].preemptive
    harness.expect_played((3.5, harness.played[0].seconds))


def test_words_that_differ_in_spelling_alone_are_the_same() -> None:
    harness = ask(Look(add, judges="words"), interims=((2.0, "Hello, there."),)).run(until=6.0)
    assert part(harness).turns == [(2.2, "Hello, there.", True)]
    assert harness.session.turns[-1].preemptive


def test_other_words_are_looked_at_anew_and_those_before_are_taken_back() -> None:
    harness = ask(Look(add, judges="words"), steps=("Wrong.", ANSWER), interims=((2.0, "yellow hair"),))
    harness.run(until=6.0)
    assert part(harness).turns == [(2.2, "yellow hair", True), (2.7, "hello there", True)]
    assert part(harness).undone == ["yellow hair"]
    assert [request.extra_instructions.count("about") for request in harness.llm.requests] == [1, 1]
    harness.expect_history(("user", "hello there"), ("assistant", ANSWER))


def test_a_turn_that_ends_while_it_is_looked_at_waits_for_that() -> None:
    async def slowly(host: Host, turn: TurnInHand) -> None:
        await anyio.sleep(0.6)
        turn.add("found")

    harness = ask(Look(slowly, judges="words")).run(until=6.0)
    assert part(harness).turns == [(2.7, "hello there", True)]
    assert asked_at(harness) == [3.3]
    record = harness.session.turns[-1]
    assert record.preemptive
    assert {stage.name: round(stage.seconds, 6) for stage in record.stages}["look"] == 0.4


def test_a_committed_turn_with_other_words_is_looked_at_again_although_that_before_still_runs() -> None:
    async def slowly(host: Host, turn: TurnInHand) -> None:
        await anyio.sleep(0.6)
        turn.add(f"about {turn.text}")

    class Edits(Agent):
        async def on_user_turn_completed(self, turn: object) -> None:
            turn.text = "hello world"  # type: ignore[attr-defined]

    harness = ask(Look(slowly, judges="words"))
    harness.agent = Edits("Be nice.")
    harness.run(until=6.0)
    assert part(harness).turns == [(2.7, "hello there", True), (2.9, "hello world", False)]
    assert part(harness).undone == ["hello there"]
    assert ["about hello world" in request.extra_instructions for request in harness.llm.requests] == [True]


@pytest.mark.parametrize("waits", [0.0, 0.5])
def test_an_answer_ahead_is_the_answer_once_the_turn_is_over(waits: float) -> None:
    async def answer(host: Host, turn: TurnInHand) -> None:
        await anyio.sleep(waits)
        await answering("Mine.")(host, turn)

    harness = ask(Look(answer, judges="words")).run(until=6.0)
    assert harness.llm.requests == []
    harness.expect_history(("user", "hello there"), ("assistant", "Mine."))
    assert len(part(harness).turns) == 1
    assert harness.played[0].start >= 2.9


def test_a_turn_that_is_dropped_ahead_is_dropped_once_it_is_over() -> None:
    harness = ask(Look(drop, judges="words")).run(until=6.0)
    assert harness.llm.requests == []
    harness.expect_history().expect_outcomes("discarded")


def test_an_answer_ahead_to_other_words_is_never_heard() -> None:
    async def answer(host: Host, turn: TurnInHand) -> None:
        if turn.text == "yellow hair":
            await answering("Mine.")(host, turn)

    harness = ask(Look(answer, judges="words"), interims=((2.0, "yellow hair"),)).run(until=6.0)
    harness.expect_history(("user", "hello there"), ("assistant", ANSWER))
    assert part(harness).undone == ["yellow hair"]


def test_one_before_it_that_judges_nothing_gets_the_turn_when_that_is_over() -> None:
    harness = ask(Look(nothing, judges="nothing"), Second(answering("Mine."), judges="words")).run(until=6.0)
    assert part(harness).turns == [(2.9, "hello there", False)]
    assert part(harness, Second).turns == [(2.7, "hello there", True)]
    harness.expect_history(("user", "hello there"), ("assistant", "Mine."))


def test_a_failure_ahead_is_one_error_and_the_turn_goes_on_without_it() -> None:
    async def fail(host: Host, turn: TurnInHand) -> None:
        raise OSError("no shelf")

    harness = ask(Look(fail, judges="words")).expects_error("look", contains="no shelf").run(until=6.0)
    assert len(harness.recording.of(ErrorOccurred)) == 1
    harness.expect_history(("user", "hello there"), ("assistant", ANSWER))
    assert harness.session.turns[-1].preemptive


def test_one_that_hangs_ahead_is_cut_at_its_limit_also_while_its_own_speech_waits_for_the_answer() -> None:
    async def speak(host: Host, turn: TurnInHand) -> None:
        await host.say("One moment.")

    harness = ask(Look(speak, judges="words"), speech=SpeechLimits(hook_timeout=1.0))
    harness.run(until=9.0)
    assert len(harness.recording.of(ErrorOccurred)) <= 1
    assert ANSWER in [item.content for item in harness.session.history.messages("assistant")]


def test_a_turn_that_goes_on_takes_back_what_was_looked_at_ahead() -> None:
    harness = ask(Look(add, judges="words"), steps=("Wrong.", ANSWER))
    harness.caller.says("my friend", 3.0, 3.5, final_at=3.7)
    harness.run(until=8.0)
    assert part(harness).undone == ["hello there"]
    assert [text for _, text, _ in part(harness).turns] == ["hello there", "hello there my friend"]
    harness.expect_history(("user", "hello there my friend"), ("assistant", ANSWER))


def test_a_call_for_when_the_turn_is_over_comes_then_and_not_for_words_that_changed() -> None:
    over: list[tuple[float, str]] = []

    async def note(host: Host, turn: TurnInHand) -> None:
        turn.once_over(lambda: over.append((round(host.context.clock.now(), 6), turn.text)))

    ask(Look(note, judges="words"), steps=("Wrong.", ANSWER), interims=((2.0, "yellow hair"),)).run(until=6.0)
    ask(Look(note, judges="nothing")).run(until=6.0)
    assert over == [(2.9, "hello there"), (2.9, "hello there")]
