"""FallbackSTT with recognisers that are mute, late or break one after the other: what counts as noise, and as words."""

from __future__ import annotations

from collections.abc import Callable

import anyio
import pytest

from kit.fallback_listening import FLUSHED, LOST, First, Listening, Mute, Second, listen
from vivavoce.pipelines import CascadingPipeline
from vivavoce.pipelines.cascading import CascadingConnection
from vivavoce.pipelines.core.incidents import on_fallback
from vivavoce.pipelines.events import PipelineEvent, PipelineFailed, UserFinal
from vivavoce.pipelines.stt.base import STTCapabilities, STTFinal, STTInterim
from vivavoce.pipelines.stt.fallback import FallbackSTT, FallbackSTTOptions
from vivavoce.pipelines.testing import (
    HANG,
    ScriptedCaller,
    ScriptedSTT,
    ScriptedSTTStream,
    ScriptedVAD,
    VirtualClock,
    run_virtual,
)

Serve = Callable[..., list[tuple[float, PipelineEvent]]]
DOWN = [LOST] * 20
BLANK = ["", " ", ".", "…", "♪ ♪"]
"""Finals that have no word."""


def test_a_mute_recogniser_is_no_witness_of_its_own_silence() -> None:
    """The other one cannot be opened at first; another stream of the mute one does not show that it was noise."""
    mute, second = Mute(), Second(["hello there"])
    second.fail_open(*[LOST] * 2)

    async def act(listening: Listening) -> None:
        await listening.say(1.2, silence=8.0)
        assert listening.finals == []
        await listening.say(1.2, silence=3.0)

    listening = listen(FallbackSTT([mute, second]), act)
    assert listening.finals == ["hello there"]
    assert listening.changes == [("mute", "second")]
    assert second.streams[0].utterances[0] == pytest.approx(1.4)  # the speech of before is heard too
    assert len(second.streams[0].flushes) == 2


@pytest.mark.parametrize("answer", BLANK)
def test_a_witness_that_hears_no_word_in_the_sound_leaves_the_first_recogniser_in_place(answer: str) -> None:
    mute, second = Mute(), Second([answer])

    async def act(listening: Listening) -> None:
        await listening.say(1.2, silence=8.0)

    listening = listen(FallbackSTT([mute, second]), act)
    assert (listening.finals, listening.changes) == ([], [])
    assert second.streams[0].flushes


@pytest.mark.parametrize("text", BLANK)
def test_a_transcript_without_a_word_comes_as_an_empty_one(text: str) -> None:
    first = First()

    async def act(listening: Listening) -> None:
        await listening.hear(0.2)
        listening.stream.speech_started(0.1)
        await listening.hear(0.3)
        first.interim("so")
        first.interim(text)
        listening.stream.flush()
        first.final(text)
        await listening.hear(8.0)

    listening = listen(FallbackSTT([first, Second()]), act)
    assert [event for _, event in listening.events] == [
        STTInterim(text="so"),
        STTInterim(text=""),
        STTFinal(text=""),
    ]


def test_two_mute_recognisers_are_no_witnesses_against_a_third_one_that_hears_words() -> None:
    members = [Mute(), Mute(), Second(["hello there"])]

    async def act(listening: Listening) -> None:
        await listening.say(1.2, silence=6.0)

    listening = listen(FallbackSTT(members), act)
    assert listening.finals == ["hello there"]
    assert listening.stt.model == "second"
    assert [member.streams[0].is_closed for member in members] == [True, True, True]


@pytest.mark.parametrize("seconds", [0.2, 0.5, 1.2])
def test_a_mute_recogniser_that_needs_a_flush_is_replaced_after_a_short_word_too(seconds: float) -> None:
    mute, second = Mute(needs_flush=True), Second(["yes"], capabilities=FLUSHED)

    async def act(listening: Listening) -> None:
        await listening.say(seconds, silence=2.5)

    listening = listen(FallbackSTT([mute, second]), act)
    ((at, event),) = listening.events
    assert event == STTFinal(text="yes")
    assert at == pytest.approx(0.2 + seconds + 2.0, abs=0.03)
    assert listening.changes == [("mute", "second")]


def test_short_words_in_a_row_that_a_recogniser_does_not_hear_put_it_in_doubt() -> None:
    mute, second = Mute(), Second(["yes", "no", "yes"])

    async def act(listening: Listening) -> None:
        for _ in range(3):
            await listening.say(0.4)
        await listening.hear(3.0)

    listening = listen(FallbackSTT([mute, second]), act)
    assert listening.finals == ["yes", "no", "yes"]


@pytest.mark.parametrize("second", ["breaks", "cannot be opened", "is mute"])
def test_a_short_word_that_was_shown_is_not_lost_when_two_recognisers_fail_one_after_the_other(second: str) -> None:
    first, third = First(), ScriptedSTT(["yes"])
    other = Second()
    if second == "cannot be opened":
        other.fail_open(*[LOST] * 9)

    async def act(listening: Listening) -> None:
        await listening.hear(0.2)
        listening.stream.speech_started(0.1)
        await listening.hear(0.2)
        first.interim("yes")
        await listening.hear(0.1)
        listening.stream.flush()
        await listening.hear(0.1)
        first.fail(LOST)
        await listening.hear(0.1)
        if second == "breaks":
            other.fail(LOST)
        await listening.hear(3.0)

    listening = listen(FallbackSTT([first, other, third]), act)
    assert listening.finals == ["yes"]
    assert listening.stt.model == "scripted"


@pytest.mark.parametrize("answer", [None, *BLANK])
def test_words_that_were_shown_become_a_final_if_no_other_recogniser_hears_them(answer: str | None) -> None:
    first, second = First(), Second()

    async def act(listening: Listening) -> None:
        await listening.hear(0.2)
        listening.stream.speech_started(0.1)
        await listening.hear(0.4)
        first.interim("yes")
        first.fail(LOST)
        await listening.hear(0.1)
        listening.stream.flush()
        await listening.hear(0.1)
        if answer is not None:
            second.final(answer)
        await listening.hear(8.0)

    listening = listen(FallbackSTT([first, second], FallbackSTTOptions(final_limit=1.0)), act)
    assert listening.finals == ["yes"]


def test_events_do_not_wait_while_a_preferred_recogniser_is_opened_again() -> None:
    class OpensSlowly(First):
        async def open(self) -> ScriptedSTTStream:
            if self.streams:
                await anyio.sleep(3.0)
            return await super().open()

    first, second = OpensSlowly(["three"]), Second(["one", "two"])

    async def act(listening: Listening) -> None:
        first.fail(LOST)
        await listening.say(0.6)
        await anyio.sleep(10.0)  # from 9 s on it may work again
        await listening.say(0.6)
        await listening.say(0.6)

    listening = listen(FallbackSTT([first, second], FallbackSTTOptions(retry_after=9.0)), act)
    assert listening.finals == ["one", "two", "three"]
    at = [when for when, _ in listening.events]
    assert at[1] == pytest.approx(11.3 + 0.8, abs=0.05)
    assert at[2] == pytest.approx(11.3 + 1.3 + 0.8, abs=0.05)
    assert listening.error is None


def test_a_late_answer_that_comes_while_the_next_one_is_opened_counts_and_none_comes_twice() -> None:
    first, second = First(["hello"], final_delay=2.3, capabilities=FLUSHED), Second(["again"], open_delay=1.0)

    async def act(listening: Listening) -> None:
        await listening.say(0.6, silence=1.0)
        await listening.hear(4.0)

    listening = listen(FallbackSTT([first, second]), act)
    assert listening.finals == ["hello"]
    assert listening.stt.model == "second"  # it was too slow: the next one takes over in the silence


def test_a_witness_that_fails_changes_nothing_and_its_words_are_asked_of_the_next_one() -> None:
    first, second, third = First(), Second(), ScriptedSTT(["hello"])

    async def act(listening: Listening) -> None:
        await listening.say(1.2, silence=2.2)
        second.fail(LOST)
        await listening.hear(1.0)

    listening = listen(FallbackSTT([first, second, third]), act)
    assert listening.finals == ["hello"]
    assert listening.changes == [("first", "scripted")]


def test_the_first_recogniser_goes_on_beside_a_witness_and_its_next_words_end_the_doubt() -> None:
    first, second = First(), Second(open_delay=0.2)

    async def act(listening: Listening) -> None:
        await listening.say(1.2, silence=2.5)
        listening.stream.speech_started(0.0)
        await listening.hear(0.3)
        first.interim("hello")
        await listening.hear(0.3)
        assert second.streams[0].is_closed
        listening.stream.flush()
        first.final("hello there")
        await listening.hear(3.0)

    listening = listen(FallbackSTT([first, second]), act)
    assert listening.finals == ["hello there"]
    assert listening.changes == []


def test_a_long_speech_without_an_interim_is_heard_by_another_one_before_it_ends() -> None:
    mute, second = Mute(), Second()

    async def act(listening: Listening) -> None:
        await listening.hear(0.2)
        listening.stream.speech_started(0.1)
        await listening.hear(3.2)
        second.interim("so I said")
        await listening.hear(2.0)
        listening.stream.flush()
        second.final("so I said to him")
        await listening.hear(0.2)

    listening = listen(FallbackSTT([mute, second]), act)
    assert listening.finals == ["so I said to him"]
    assert second.streams[0].pushed_seconds == pytest.approx(5.6, abs=0.1)


def test_members_that_hang_as_they_are_closed_do_not_hold_up_the_close_of_the_stream() -> None:
    first, second = First(close_delay=HANG), Second(close_delay=HANG)

    async def act(listening: Listening) -> None:
        first.fail(LOST)
        await listening.hear(0.1)
        began = VirtualClock().now()
        await listening.stream.aclose()
        assert VirtualClock().now() - began < 1.0

    assert listen(FallbackSTT([first, second]), act).error is None


def test_a_stream_that_is_closed_while_another_one_opens_leaves_nothing_behind() -> None:
    first, second = First(), Second(open_delay=HANG)

    async def act(listening: Listening) -> None:
        first.fail(LOST)
        await listening.hear(0.1)
        await listening.stream.aclose()

    listening = listen(FallbackSTT([first, second]), act)
    assert listening.events == []


def test_a_stream_that_opens_in_spite_of_its_cancellation_is_closed() -> None:
    class Stubborn(Second):
        async def open(self) -> ScriptedSTTStream:
            with anyio.CancelScope(shield=True):
                await anyio.sleep(0.5)
                stream = await super().open()
            return stream

    first, second = First(), Stubborn()

    async def act(listening: Listening) -> None:
        first.fail(LOST)
        await listening.hear(0.1)
        await listening.stream.aclose()

    listening = listen(FallbackSTT([first, second]), act)
    assert (listening.events, listening.error) == ([], None)
    assert [stream.is_closed for stream in second.streams] == [True]


def test_two_streams_of_one_fallback_share_the_health_of_its_members_and_nothing_else() -> None:
    first, second = First(["one"]), Second(["other"])
    stt = FallbackSTT([first, second])

    async def main() -> list[list[str]]:
        on_fallback.set(None)
        one, other = Listening(stt, await stt.open(), []), Listening(stt, await stt.open(), [])
        async with anyio.create_task_group() as group:
            group.start_soon(one.read)
            group.start_soon(other.read)
            first.streams[1].emit(LOST)
            group.start_soon(one.say, 0.6)
            await other.say(0.6)
            for each in (one, other):
                await each.stream.aclose()
        return [one.finals, other.finals]

    assert run_virtual(main()) == [["one"], ["other"]]


# --- words of an interim that were passed on as a final


def test_a_late_final_of_words_that_were_passed_on_comes_to_nothing_in_the_next_utterance() -> None:
    first, second = First(), Second()

    async def act(listening: Listening) -> None:
        second.fail_open(*DOWN)
        await listening.hear(0.2)
        listening.stream.speech_started(0.1)
        await listening.hear(0.5)
        first.interim("my number is five")
        first.fail_open(*DOWN)
        await listening.hear(0.5)
        listening.stream.flush()
        await listening.hear(3.0)
        assert listening.finals == ["my number is five"]
        listening.stream.speech_started(0.1)
        await listening.hear(0.4)
        first.final("My number is five.")
        await listening.hear(0.3)
        first.interim("thank you")
        await listening.hear(0.3)
        listening.stream.flush()
        first.final("thank you")
        await listening.hear(2.0)

    assert listen(FallbackSTT([first, second]), act).finals == ["my number is five", "thank you"]


@pytest.mark.parametrize(
    ("then", "finals"),
    [
        (["thank you"], ["thank you"]),
        (["My number is five."], []),
        (["my number is five, thank you"], ["thank you"]),
        (["my number is five", "thank you"], ["thank you"]),
        (["", "thank you"], ["thank you"]),
        (["no, my number is six"], ["no, my number is six"]),
    ],
)
def test_without_a_vad_words_tell_a_second_final_from_the_next_utterance(then: list[str], finals: list[str]) -> None:
    first, second = First(), Second()

    async def act(listening: Listening) -> None:
        second.fail_open(*DOWN)
        await listening.hear(0.5)
        first.interim("my number is five")
        first.fail_open(*DOWN)
        await listening.hear(0.3)
        listening.stream.flush()
        await listening.hear(4.0)
        for text in then:
            first.final(text)
        await listening.hear(2.0)

    assert listen(FallbackSTT([first, second]), act).finals == ["my number is five", *finals]


@pytest.mark.parametrize(
    ("told", "says", "seconds", "finals"),
    [
        ("five five one", "no, five six one", 0.8, ["no, five six one"]),  # a correction is no repetition
        ("five five one", "five six one", 0.8, ["five six one"]),
        ("five five one", "one", 0.8, ["one"]),
        ("five five one", "Five five one.", 0.8, []),
        ("hello", "hello", 0.4, ["hello"]),  # a short word that the caller repeats
    ],
)
def test_a_correction_of_words_that_were_passed_on_is_heard(
    told: str, says: str, seconds: float, finals: list[str]
) -> None:
    first, second = First(), Second()

    async def act(listening: Listening) -> None:
        second.fail_open(*DOWN)
        await listening.hear(0.2)
        listening.stream.speech_started(0.1)
        await listening.hear(0.3)
        first.interim(told)
        first.fail_open(*DOWN)
        listening.stream.flush()
        await listening.hear(3.0)
        await listening.say(seconds)
        first.final(says)
        await listening.hear(1.0)

    assert [text for text in listen(FallbackSTT([first, second]), act).finals if text] == [told, *finals]


def test_interims_of_words_that_were_passed_on_show_no_new_words() -> None:
    first, second = First(), Second()

    async def act(listening: Listening) -> None:
        second.fail_open(*DOWN)
        await listening.hear(0.2)
        listening.stream.speech_started(0.1)
        await listening.hear(0.3)
        first.interim("my number is five")
        first.fail_open(*DOWN)
        listening.stream.flush()
        await listening.hear(3.0)
        first.interim("my number is five")
        first.final("my number is five")
        await listening.hear(1.0)

    listening = listen(FallbackSTT([first, second]), act)
    assert [event.text for _, event in listening.events if isinstance(event, STTInterim | STTFinal)] == [
        "my number is five",
        "my number is five",
    ]


def test_words_of_two_recognisers_that_break_are_told_once_and_hide_no_others() -> None:
    first, second = First(), Second()

    async def act(listening: Listening) -> None:
        await listening.hear(0.2)
        listening.stream.speech_started(0.1)
        await listening.hear(0.5)
        first.interim("my number is number five")
        listening.stream.flush()
        first.fail_open(*DOWN)
        first.fail(LOST)
        await listening.hear(0.3)
        second.interim("number 5")  # the same audio
        await listening.hear(0.2)
        listening.stream.speech_started(0.1)
        await listening.hear(0.3)
        second.interim("thanks")
        listening.stream.flush()
        second.fail_open(*DOWN)
        second.fail(LOST)
        await listening.hear(1.0)

    assert listen(FallbackSTT([first, second]), act).finals == ["my number is number five", "thanks"]


# --- no recogniser works for a moment


@pytest.mark.parametrize("can", [STTCapabilities(emits_interims=False), FLUSHED], ids=["continuous", "needs flush"])
@pytest.mark.parametrize("fails_at", [2.0, 3.3], ids=["in speech", "behind it"])
def test_audio_that_no_recogniser_has_settled_is_heard_when_the_fallback_is_opened_again(
    serve: Serve, can: STTCapabilities, fails_at: float
) -> None:
    first, second = First(capabilities=can), Second(["hello"], capabilities=can)

    async def talk(connection: CascadingConnection) -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(ScriptedCaller(connection.push_audio, [(1.0, 3.0)]).run, 8.0)
            await anyio.sleep(fails_at)
            first.fail_open(LOST, LOST)
            second.fail_open(LOST)
            first.fail(LOST)

    events = serve(CascadingPipeline(stt=FallbackSTT([first, second]), vad=ScriptedVAD()), talk)
    assert [event.text for _, event in events if isinstance(event, UserFinal) and event.text] == ["hello"]
    assert second.streams[0].pushed_seconds >= 2.0 + 4.0
    assert len(second.streams[0].flushes) == 1


def test_audio_that_no_recogniser_has_settled_goes_to_the_pipeline_that_takes_over(serve: Serve) -> None:
    first, second = First(), Second()

    async def talk(connection: CascadingConnection) -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(ScriptedCaller(connection.push_audio, [(1.0, 3.0)]).run, 8.0)
            await anyio.sleep(2.5)
            first.fail_open(*DOWN)
            second.fail_open(*DOWN)
            first.fail(LOST)

    events = serve(CascadingPipeline(stt=FallbackSTT([first, second]), vad=ScriptedVAD()), talk)
    ((at, failed),) = [(at, event) for at, event in events if isinstance(event, PipelineFailed) and not event.recovered]
    assert sum(frame.duration for frame in failed.unheard) == pytest.approx(at, abs=0.3)
