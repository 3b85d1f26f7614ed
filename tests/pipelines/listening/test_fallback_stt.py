"""FallbackSTT: the next recogniser by error and by latency; the audio since the last final is heard again."""

from __future__ import annotations

import logging

import anyio
import pytest

from kit.fallback_listening import FLUSHED, LOST, First, Listening, Second, listen
from vivavoce.pipelines.core.errors import ConfigurationError, ProviderConnectionError, ProviderError
from vivavoce.pipelines.media.frame import AudioFrame
from vivavoce.pipelines.stt.base import (
    STTCapabilities,
    STTEagerEndOfTurn,
    STTEndOfTurn,
    STTFinal,
    STTInterim,
    STTTurnResumed,
)
from vivavoce.pipelines.stt.fallback import FallbackSTT, FallbackSTTOptions
from vivavoce.pipelines.testing import HANG, ScriptedSTT, VirtualClock, run_virtual
from vivavoce.pipelines.testing.scripted_stt import ScriptedSTTStream


def test_a_recogniser_that_cannot_be_opened_is_passed_over() -> None:
    first, second = First(), Second(["hello"])
    first.fail_open(LOST)

    async def act(listening: Listening) -> None:
        await listening.say(0.6)

    listening = listen(FallbackSTT([first, second]), act)
    assert listening.finals == ["hello"]
    assert listening.changes == [("first", "second")]
    assert listening.stt.model == "second"


def test_a_recogniser_that_hangs_at_opening_is_passed_over_within_its_limit() -> None:
    first, second = First(open_delay=HANG), Second(["hello"])

    async def main() -> None:
        clock = VirtualClock()
        stream = await FallbackSTT([first, second], FallbackSTTOptions(open_timeout=1.0)).open()
        await stream.aclose()
        assert clock.now() == pytest.approx(1.0)

    run_virtual(main())


@pytest.mark.parametrize("can", [STTCapabilities(), FLUSHED], ids=["continuous", "needs flush"])
def test_the_audio_since_the_last_final_is_heard_by_the_next_one_and_no_more(can: STTCapabilities) -> None:
    first, second = First(["one"], capabilities=can), Second(["two"], capabilities=can, open_delay=0.3)

    async def act(listening: Listening) -> None:
        await listening.say(1.0)
        await listening.hear(0.2)
        listening.stream.speech_started(0.1)
        await listening.hear(0.5)
        first.interim("tw")
        first.fail(LOST)
        await listening.hear(0.5)  # of which 0.3 s while the next one is opened
        listening.stream.flush()
        await listening.hear(0.3)

    listening = listen(FallbackSTT([first, second]), act)
    assert listening.finals == ["one", "two"]
    assert listening.changes == [("first", "second")]
    (stream,) = second.streams
    if can.needs_flush:
        assert stream.utterances == [pytest.approx(1.0)]
    else:  # 0.5 s of silence behind "one", then 0.2 s
        assert stream.utterances[0] == pytest.approx(0.7 + 1.0, abs=0.05)
    assert first.streams[0].is_closed


def test_speech_that_ended_before_the_loss_is_heard_again_with_its_end() -> None:
    first, second = First(), Second(["hello"], capabilities=STTCapabilities())

    async def act(listening: Listening) -> None:
        await listening.say(0.6, silence=0.1)
        first.fail(LOST)
        await listening.hear(0.5)

    listening = listen(FallbackSTT([first, second]), act)
    assert listening.finals == ["hello"]
    assert len(second.streams[0].speech_starts) == 1
    assert len(second.streams[0].flushes) == 1


@pytest.mark.parametrize("retryable", [True, False])
def test_any_error_of_a_stream_counts(retryable: bool) -> None:
    first, second = First(), Second(["hello"])

    async def act(listening: Listening) -> None:
        first.fail(ProviderError("no such key", provider="first", retryable=retryable))
        await listening.say(0.6)

    assert listen(FallbackSTT([first, second]), act).finals == ["hello"]


def test_a_stream_whose_push_raises_or_that_ends_by_itself_is_replaced_without_losing_a_frame() -> None:
    class Broken(ScriptedSTTStream):
        def push(self, frame: AudioFrame) -> None:
            super().push(frame)
            if self.pushed_seconds > 0.3:
                raise ValueError("wrong")

    class Breaks(First):
        async def open(self) -> ScriptedSTTStream:
            return Broken(lambda: None, 0.0, 0.0)

    class Ends(First):
        async def open(self) -> ScriptedSTTStream:
            stream = await super().open()
            await stream.aclose()
            return stream

    async def act(listening: Listening) -> None:
        await listening.say(0.6)

    for first in (Breaks(), Ends()):
        second = Second(["hello"])
        assert listen(FallbackSTT([first, second]), act).finals == ["hello"]
        assert second.streams[0].utterances[0] == pytest.approx(0.8)


def test_a_recogniser_that_owes_a_final_after_interims_is_left_within_its_limit() -> None:
    first, second = First(), Second(["hello there"], final_delay=0.1)

    async def act(listening: Listening) -> None:
        await listening.hear(0.2)
        listening.stream.speech_started(0.1)
        await listening.hear(0.4)
        first.interim("hello")
        await listening.hear(0.2)
        listening.stream.flush()
        await listening.hear(2.0)

    listening = listen(FallbackSTT([first, second], FallbackSTTOptions(final_limit=1.5)), act)
    assert listening.events == [
        (0.6, STTInterim(text="hello")),
        (pytest.approx(0.8 + 1.5 + 0.1, abs=0.03), STTFinal(text="hello there")),
    ]
    assert type(listening.told[0].error).__name__ == "ProviderTimeoutError"


def test_a_recogniser_that_hears_nothing_in_clear_speech_is_left_and_one_that_hears_nothing_in_noise_is_not() -> None:
    first, second = First(), Second(["hello there"])

    async def act(listening: Listening) -> None:
        await listening.say(0.5, silence=3.0)
        assert listening.changes == []
        await listening.say(1.2, silence=3.0)

    listening = listen(FallbackSTT([first, second]), act)
    assert listening.finals == ["hello there"]
    assert listening.changes == [("first", "second")]


def test_if_the_next_one_hears_no_word_either_it_was_noise_and_nothing_changes() -> None:
    first, second = First(), Second()

    async def act(listening: Listening) -> None:
        await listening.say(1.2, silence=6.0)
        (witness,) = second.streams
        assert witness.is_closed
        assert witness.utterances[0] == pytest.approx(1.4)
        await listening.say(0.5, silence=0.0)
        first.final("later")
        await listening.hear(0.1)

    listening = listen(FallbackSTT([first, second]), act)
    assert listening.finals == ["later"]
    assert listening.changes == []
    assert listening.stt.model == "first"
    assert len(first.streams) == 1


def test_after_a_check_the_call_goes_back_to_the_first_recogniser_in_a_silence_and_no_word_is_lost() -> None:
    first, second = First(["three"]), Second(["one", "two"])

    async def act(listening: Listening) -> None:
        first.fail(LOST)
        await listening.say(0.6)
        await anyio.sleep(3.0)
        listening.stream.speech_started(0.0)
        await listening.hear(1.5)  # meanwhile its check
        assert len(first.streams) == 2
        listening.stream.flush()
        await listening.hear(0.6)
        await listening.say(0.6)

    listening = listen(FallbackSTT([first, second], FallbackSTTOptions(check_every=5.0)), act, tends=True)
    assert listening.finals == ["one", "two", "three"]
    assert listening.stt.model == "first"
    assert second.streams[-1].is_closed
    assert len(first.streams) == 3


def test_a_recogniser_that_was_too_slow_comes_back_by_time_and_not_by_a_check() -> None:
    first, second = First(), Second(["one", "two"])
    options = FallbackSTTOptions(check_every=5.0, retry_after=30.0)

    async def act(listening: Listening) -> None:
        await listening.say(1.2, silence=3.0)
        await anyio.sleep(20.0)
        await listening.say(0.6)
        assert len(first.streams) == 1
        await anyio.sleep(10.0)
        assert len(first.streams) == 2
        await listening.say(0.6)
        first.final("three")
        await listening.hear(0.1)

    listening = listen(FallbackSTT([first, second], options), act, tends=True)
    assert listening.finals == ["one", "two", "three"]
    assert len(first.streams) == 2


def test_if_no_recogniser_can_be_opened_the_error_is_raised_after_the_last_interim() -> None:
    first, second = First(), Second()

    async def act(listening: Listening) -> None:
        await listening.hear(0.5)
        first.fail_open(LOST)
        second.fail_open(LOST)
        first.fail(LOST)
        await listening.hear(0.5)

    listening = listen(FallbackSTT([first, second]), act)
    assert isinstance(listening.error, ProviderConnectionError)
    assert listening.error.retryable


def test_recognisers_that_open_and_fail_at_once_are_given_up() -> None:
    class Dies(ScriptedSTT):
        async def open(self) -> ScriptedSTTStream:
            stream = await super().open()
            stream.emit(LOST)
            return stream

    members = [Dies(), Dies()]

    async def act(listening: Listening) -> None:
        await listening.hear(0.5)

    listening = listen(FallbackSTT(members), act)
    assert listening.error is not None
    assert sum(len(member.streams) for member in members) == 4


def test_kept_audio_is_bounded() -> None:
    first, second = First(), Second(["hello"])

    async def act(listening: Listening) -> None:
        listening.stream.speech_started(0.0)
        await listening.hear(2.8)
        first.fail(LOST)
        await listening.hear(0.1)

    listen(FallbackSTT([first, second], FallbackSTTOptions(kept_seconds=2.0)), act)
    assert second.streams[0].pushed_seconds == pytest.approx(2.1, abs=0.05)
    assert len(second.streams[0].speech_starts) == 1


def test_members_get_the_audio_at_their_own_rate() -> None:
    class Counts(Second):
        def __init__(self) -> None:
            super().__init__(["hello"], capabilities=STTCapabilities(sample_rate=24000))

    first, second = First(), Counts()
    first.fail_open(LOST)

    async def act(listening: Listening) -> None:
        await listening.say(0.6)

    stt = FallbackSTT([first, second])
    assert stt.capabilities.sample_rate == 16000
    assert listen(stt, act).finals == ["hello"]
    assert second.streams[0].utterances[0] == pytest.approx(0.8, abs=0.05)


def test_discarded_audio_is_not_heard_again() -> None:
    first, second = First(), Second()

    async def act(listening: Listening) -> None:
        await listening.hear(1.0)
        listening.stream.discard()
        first.fail(LOST)
        await listening.hear(0.4)

    listen(FallbackSTT([first, second]), act)
    assert second.streams[0].pushed_seconds == pytest.approx(0.4)


def test_end_of_turn_is_reported_only_if_all_report_it() -> None:
    ends = STTCapabilities(emits_end_of_turn=True)
    for others, is_told in ((ends, True), (STTCapabilities(), False)):
        first = First(capabilities=ends)

        async def act(listening: Listening, first: ScriptedSTT = first) -> None:
            first.end_of_turn()
            await listening.hear(0.1)

        stt = FallbackSTT([first, Second(capabilities=others)])
        assert stt.capabilities.emits_end_of_turn is is_told
        told = listen(stt, act).events
        assert any(isinstance(event, STTEndOfTurn) for _, event in told) is is_told


@pytest.mark.parametrize("all_judge", [True, False])
def test_eager_ends_pass_if_all_judge_turns_and_are_interims_if_not(all_judge: bool) -> None:
    ends, words = STTCapabilities(emits_end_of_turn=True), STTFinal(text="a table")
    first = First(capabilities=ends)

    async def act(listening: Listening) -> None:
        await listening.hear(0.2)
        first.eager_end_of_turn("a table")
        first.eager_end_of_turn()
        first.turn_resumed()
        first.final("a table")
        first.end_of_turn()
        await listening.hear(0.1)

    told = listen(FallbackSTT([first, Second(capabilities=ends if all_judge else None)]), act).events
    eager = [STTEagerEndOfTurn("a table"), STTEagerEndOfTurn(), STTTurnResumed(), words, STTEndOfTurn()]
    assert [event for _, event in told] == (eager if all_judge else [STTInterim(text="a table"), words])


def test_one_that_judges_turns_owes_no_final_at_the_end_of_speech_and_its_successor_hears_the_turn_again() -> None:
    ends = STTCapabilities(emits_end_of_turn=True)
    first, second = First(capabilities=ends), Second(capabilities=ends)

    async def act(listening: Listening) -> None:
        await listening.hear(0.2)
        listening.stream.speech_started(0.1)
        await listening.hear(0.5)
        first.interim("a table")
        await listening.hear(0.5)
        listening.stream.speech_ended()
        first.eager_end_of_turn("a table")
        await listening.hear(4.0)
        assert not second.streams
        first.fail(LOST)
        await listening.hear(0.1)
        second.final("a table")
        second.end_of_turn()
        await listening.hear(0.1)

    listening = listen(FallbackSTT([first, second]), act)
    assert [event for _, event in listening.events][-2:] == [STTFinal(text="a table"), STTEndOfTurn()]
    assert listening.finals == ["a table"]
    assert len(first.streams[0].speech_ends) == 1
    assert (first.streams[0].flushes, second.streams[0].flushes) == ([], [])
    assert second.streams[0].pushed_seconds > 5.0


def test_pauses_of_the_voice_reach_the_one_that_hears() -> None:
    first, second = First(), Second()

    async def act(listening: Listening) -> None:
        await listening.hear(0.2)
        listening.stream.speech_started(0.1)
        listening.stream.voice_paused()
        listening.stream.voice_resumed()

    listen(FallbackSTT([first, second]), act)
    assert [edge for edge, _ in first.streams[0].voice_edges] == ["paused", "resumed"]


def test_noise_is_no_speech_that_one_that_judges_turns_is_late_with() -> None:
    ends = STTCapabilities(emits_end_of_turn=True)
    first, second = First(capabilities=ends), Second(capabilities=ends)

    async def act(listening: Listening) -> None:
        await listening.hear(0.2)
        listening.stream.speech_started(0.1)
        await listening.hear(0.5)
        listening.stream.speech_ended()
        await listening.hear(5.0)

    listen(FallbackSTT([first, second]), act)
    assert not second.streams


@pytest.mark.parametrize("hears", [True, False])
def test_one_that_judges_turns_and_hears_nothing_in_clear_speech_is_in_doubt_when_that_is_over(hears: bool) -> None:
    ends = STTCapabilities(emits_end_of_turn=True)
    first, second = First(capabilities=ends), Second(capabilities=ends)

    async def act(listening: Listening) -> None:
        await listening.hear(0.2)
        listening.stream.speech_started(0.1)
        await listening.hear(1.2)
        listening.stream.speech_ended()
        await listening.hear(1.9)
        assert not second.streams
        await listening.hear(0.2)
        if hears:
            second.final("a table")
            second.end_of_turn()
        await listening.hear(5.0)

    listening = listen(FallbackSTT([first, second]), act)
    assert second.streams[0].pushed_seconds >= 1.2 + 1.9
    assert len(second.streams) == 1
    if hears:
        assert [event for _, event in listening.events] == [STTFinal(text="a table"), STTEndOfTurn()]
        assert listening.changes == [("first", "second")]
    else:
        assert (listening.events, listening.changes) == ([], [])
        assert second.streams[0].is_closed


def test_its_capabilities_are_computed_from_all() -> None:
    stt = FallbackSTT([First(capabilities=STTCapabilities(sample_rate=8000)), Second(capabilities=FLUSHED)])
    assert stt.capabilities == STTCapabilities(sample_rate=8000, needs_flush=True)
    without = Second(capabilities=STTCapabilities(emits_interims=False))
    assert not FallbackSTT([First(), without]).capabilities.emits_interims
    with pytest.raises(ConfigurationError, match="two members"):
        FallbackSTT([First()])
    with pytest.raises(ConfigurationError, match="final_limit"):
        FallbackSTTOptions(final_limit=0)


def test_interims_are_passed_on_only_if_all_members_have_them(caplog: pytest.LogCaptureFixture) -> None:
    first, second = First(), Second(capabilities=STTCapabilities(emits_interims=False))

    async def act(listening: Listening) -> None:
        await listening.hear(0.5)
        first.interim("a")
        first.final("a table")
        await listening.hear(0.5)

    with caplog.at_level(logging.INFO):
        listening = listen(FallbackSTT([first, second]), act)
    assert [event for _, event in listening.events] == [STTFinal(text="a table")]
    assert "second has none" in caplog.text


def test_a_member_whose_close_hangs_holds_nothing_up() -> None:
    first, second = First(close_delay=HANG), Second(["hello"])

    async def act(listening: Listening) -> None:
        first.fail(LOST)
        await listening.say(1.5)

    assert listen(FallbackSTT([first, second]), act).finals == ["hello"]


def test_members_without_a_list_are_refused_with_the_list_that_is_needed() -> None:
    with pytest.raises(ConfigurationError, match=r"in one list, FallbackSTT\(\[a, b\]\), got .*ScriptedSTT"):
        FallbackSTT(ScriptedSTT(), ScriptedSTT())  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("shown_later", "final", "finals"),
    [
        (None, "the first words", ["the first words", "two"]),  # nothing of "two" was reported before the loss
        ("the first words two", "the first words two", ["the first words two"]),  # both are one for this recogniser
        (None, "the first words two", ["the first words two"]),
    ],
)
def test_words_without_an_interim_behind_a_late_final_are_heard_by_the_next_one_if_they_were_not_settled(
    shown_later: str | None, final: str, finals: list[str]
) -> None:
    first, second = First(), Second(["two"])

    async def act(listening: Listening) -> None:
        await listening.hear(0.2)
        listening.stream.speech_started(0.1)
        await listening.hear(0.5)
        first.interim("the first words")
        await listening.hear(0.1)
        listening.stream.flush()
        await listening.hear(0.3)
        listening.stream.speech_started(0.1)
        await listening.hear(0.5)
        if shown_later is not None:
            first.interim(shown_later)
        listening.stream.flush()
        await listening.hear(0.1)
        first.final(final)
        await listening.hear(0.1)
        first.fail(LOST)
        await listening.hear(4.0)

    listening = listen(FallbackSTT([first, second]), act)
    assert listening.finals == finals
