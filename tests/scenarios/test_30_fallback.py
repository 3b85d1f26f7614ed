"""Fallbacks in a session: no word is lost or heard twice, and record, event and report name failure and successor."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Literal

import anyio
import pytest

from vivavoce.agents import Agent, SessionOptions
from vivavoce.agents.events import ErrorOccurred
from vivavoce.agents.testing import HANG, ScriptedLLM, ScriptedSTT, ScriptedTTS, SessionHarness, TTSFault
from vivavoce.pipelines import (
    CascadingOptions,
    CascadingPipeline,
    FallbackLLM,
    FallbackSTT,
    FallbackSTTOptions,
    FallbackTTS,
    FallbackTTSOptions,
    RealtimeOptions,
    RealtimePipeline,
)
from vivavoce.pipelines.core.errors import ProviderConnectionError, ProviderTimeoutError
from vivavoce.pipelines.realtime_model.base import RealtimeCapabilities
from vivavoce.pipelines.stt.base import STT, STTCapabilities
from vivavoce.pipelines.testing import ScriptedRealtimeModel, ScriptedTTSOptions, ScriptedVAD, Step, StepItem
from vivavoce.pipelines.tts.base import TTS, AudioChunk
from vivavoce.pipelines.tts.text_filters import DEFAULT_TEXT_FILTERS, TextFilter

LOST = ProviderConnectionError("down", provider="first")
SAID = "One two three four five six seven eight."


class FirstLLM(ScriptedLLM):
    provider = "first"


class SecondLLM(ScriptedLLM):
    provider = "second"


class FirstTTS(ScriptedTTS):
    provider = "first"


class FirstSTT(ScriptedSTT):
    provider = "first"


class SecondSTT(ScriptedSTT):
    provider = "second"


class SecondTTS(ScriptedTTS):
    provider = "second"


def told(harness: SessionHarness) -> list[tuple[str, str, str, bool]]:
    """Each error event: its component, the provider that failed, the successor, whether it was recovered."""
    events = harness.recording.of(ErrorOccurred)
    return [(one.source, getattr(one.error, "provider", ""), one.successor, one.is_recovered) for one in events]


def ask(harness: SessionHarness, until: float = 12.0) -> SessionHarness:
    harness.caller.says("first question", 0.5, 1.5)
    harness.run(until=until)
    return harness


def speaking(
    stt: STT,
    tts: TTS,
    kind: str,
    *,
    said: Step = (0.1, SAID),
    then: Step = (0.1, "Again."),
    filters: tuple[TextFilter, ...] = (),
) -> SessionHarness:
    """A session whose text model of either pipeline speaks by `tts`: first `said`, and then `then`."""
    pipeline: CascadingPipeline | RealtimePipeline
    model: ScriptedRealtimeModel | None = None
    if kind == "cascading":
        llm = ScriptedLLM(said, default=then)
        options = CascadingOptions(text_filters=filters)
        pipeline = CascadingPipeline(stt=stt, llm=llm, tts=tts, vad=ScriptedVAD(), options=options)
    else:
        capabilities = RealtimeCapabilities(
            generates_audio=False, generates_text=True, turn_detection=frozenset({"local"}), starts_replies=False
        )
        model = ScriptedRealtimeModel(said, then, delay=0.0, capabilities=capabilities)
        voice = RealtimeOptions(text_filters=filters)
        pipeline = RealtimePipeline(model, vad=ScriptedVAD(), stt=stt, tts=tts, options=voice)
    listens = stt if isinstance(stt, ScriptedSTT) else None
    return SessionHarness(Agent("Help."), stt=listens, pipeline=pipeline, options=SessionOptions(preemptive=False))


KINDS = pytest.mark.parametrize("kind", ["cascading", "realtime"])


@pytest.mark.parametrize("preemptive", [False, True])
@pytest.mark.parametrize("fault", [LOST, HANG], ids=["raises", "hangs"])
def test_a_model_that_fails_is_replaced_in_the_same_turn_and_the_turn_names_both(
    fault: Exception | float, preemptive: bool
) -> None:
    stt = ScriptedSTT()
    llm = FallbackLLM([FirstLLM(default=[fault]), SecondLLM(default=[0.1, "Sure."])])
    pipeline = CascadingPipeline(stt=stt, llm=llm, tts=ScriptedTTS(), vad=ScriptedVAD())
    harness = SessionHarness(Agent("Help."), stt=stt, pipeline=pipeline, options=SessionOptions(preemptive=preemptive))
    ask(harness)
    harness.expect_outcomes("completed")
    harness.expect_history(("user", "first question"), ("assistant", "Sure."))
    assert told(harness) == [("llm", "first", "second", True)]
    (turn,) = harness.session.turns
    (record,) = turn.fallbacks
    assert (record.component, record.provider, record.successor) == ("llm", "first", "second")
    assert 0 < record.at < turn.ended_at
    (error,) = harness.session.report().errors
    assert (error.source, error.successor, error.is_recovered) == ("llm", "second", True)


def test_if_all_models_fail_the_turn_fails_and_the_next_one_works() -> None:
    stt = ScriptedSTT()
    first, second = FirstLLM([LOST], default=[0.1, "All is well."]), SecondLLM(default=[LOST])
    pipeline = CascadingPipeline(stt=stt, llm=FallbackLLM([first, second]), tts=ScriptedTTS(), vad=ScriptedVAD())
    harness = SessionHarness(Agent("Help."), stt=stt, pipeline=pipeline, options=SessionOptions(preemptive=False))
    harness.caller.says("first question", 0.5, 1.5)
    harness.run(until=8.0)
    harness.expect_outcomes("completed")  # the pipeline tries again, and the first one is back
    harness.expect_history(("user", "first question"), ("assistant", "All is well."))
    (turn,) = harness.session.turns
    assert [record.successor for record in turn.fallbacks] == ["second"]
    assert len(turn.retries) == 1


def test_when_everything_is_down_the_turn_fails_within_its_limit_and_the_call_goes_on() -> None:
    stt = ScriptedSTT()
    first, second = FirstLLM([HANG], default=[0.1, "All is well."]), SecondLLM([HANG])
    pipeline = CascadingPipeline(stt=stt, llm=FallbackLLM([first, second]), tts=ScriptedTTS(), vad=ScriptedVAD())
    harness = SessionHarness(Agent("Help."), stt=stt, pipeline=pipeline, options=SessionOptions(preemptive=False))
    harness.caller.says("first question", 0.5, 1.5)
    harness.caller.says("second question", 12.0, 13.0)
    harness.expects_error("llm").run(until=20.0)
    harness.expect_outcomes("failed", "completed")
    assert harness.messages == [
        ("user", "first question"),
        ("user", "second question"),
        ("assistant", "All is well."),
    ]


@KINDS
def test_a_voice_that_breaks_off_is_replaced_in_the_same_sentence_and_no_word_is_heard_twice(kind: str) -> None:
    first = FirstTTS(emits_words=True, faults={0: TTSFault("middle", LOST)})
    second = SecondTTS(emits_words=True)
    harness = ask(speaking(ScriptedSTT(), FallbackTTS([first, second]), kind))
    harness.expect_outcomes("completed")
    harness.expect_history(("user", "first question"), ("assistant", SAID))
    assert first.texts == [SAID]
    assert second.texts == ["five six seven eight."]
    assert told(harness) == [("tts", "first", "second", True)]
    (turn,) = harness.session.turns
    assert turn.played_seconds == pytest.approx(1.6)
    assert [(one.component, one.provider, one.successor) for one in turn.fallbacks] == [("tts", "first", "second")]


@KINDS
def test_a_voice_without_word_times_that_breaks_off_is_replaced_from_the_beginning_of_its_sentence(kind: str) -> None:
    first, second = FirstTTS(faults={1: TTSFault("middle", LOST)}), SecondTTS()
    harness = ask(speaking(ScriptedSTT(), FallbackTTS([first, second]), kind, said=(0.1, f"Well then. {SAID}")))
    harness.expect_outcomes("completed")
    harness.expect_history(("user", "first question"), ("assistant", f"Well then. {SAID}"))
    assert first.texts == ["Well then.", SAID]
    assert second.texts == [SAID]
    (turn,) = harness.session.turns
    assert turn.played_seconds == pytest.approx(0.4 + 0.8 + 1.6)


class ReadsAhead(FirstTTS):
    """It reads its text in a task of its own, as a voice with a socket does, and breaks off while it waits for more."""

    async def stream(self, text: AsyncIterator[str]) -> AsyncGenerator[AudioChunk, None]:
        read: list[str] = []

        async def reading() -> None:
            async for piece in text:
                read.append(piece)

        reader = asyncio.get_running_loop().create_task(reading())
        await anyio.sleep(0.2)
        chunks = self._word("One", 0.0)
        yield chunks[0]
        await anyio.sleep(0.5)
        reader.cancel()
        await asyncio.wait({reader})
        raise LOST


@KINDS
@pytest.mark.parametrize("filters", [(), DEFAULT_TEXT_FILTERS], ids=["plain", "filtered"])
def test_a_voice_that_breaks_off_while_it_reads_its_text_loses_no_later_word(
    kind: str, filters: tuple[TextFilter, ...]
) -> None:
    first = ReadsAhead(emits_words=True, streams_text=True)
    second = SecondTTS(emits_words=True, streams_text=True)
    said: list[StepItem] = [0.1, "One two ", 2.0, "three four."]
    harness = ask(speaking(ScriptedSTT(), FallbackTTS([first, second]), kind, said=said, filters=filters))
    harness.expect_outcomes("completed")
    harness.expect_history(("user", "first question"), ("assistant", "One two three four."))
    assert second.texts == ["two three four."]


@KINDS
@pytest.mark.parametrize("emits_words", [True, False])
def test_cut_after_the_change_of_voices_the_history_holds_the_words_that_were_heard(
    kind: str, emits_words: bool
) -> None:
    """The first voice speaks "One two three four", 0.8 s; the second one is cut within its third word, "seven"."""
    first = FirstTTS(emits_words=True, faults={0: TTSFault("middle", LOST)})
    second = SecondTTS(emits_words=emits_words, options=ScriptedTTSOptions(seconds_per_word=1.0))
    harness = speaking(ScriptedSTT(), FallbackTTS([first, second]), kind)
    harness.caller.says("first question", 0.5, 1.5)

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(2.2 + 0.8 + 2.5)
        await harness.session.interrupt()

    harness.run(scenario, until=8.0)
    heard = harness.session.turns[0].heard_text
    assert heard in ("One two three four five six", "One two three four five")
    assert harness.session.turns[0].outcome == "interrupted"


@KINDS
@pytest.mark.parametrize("fault", ["lost", "silent"])
def test_a_recogniser_that_fails_in_mid_speech_loses_no_word_and_the_turn_names_both(kind: str, fault: str) -> None:
    capabilities = STTCapabilities(needs_flush=True)
    first, second = FirstSTT(capabilities=capabilities), SecondSTT(["a table for two"], capabilities=capabilities)
    harness = speaking(FallbackSTT([first, second]), ScriptedTTS(), kind)
    harness.caller.makes_noise(0.5, 2.0)

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(1.2)
        if fault == "lost":
            first.fail(LOST)

    harness.run(scenario, until=10.0)
    harness.expect_history(("user", "a table for two"), ("assistant", SAID))
    assert told(harness) == [("stt", "first", "second", True)]
    (turn,) = harness.session.turns
    assert [(one.component, one.provider, one.successor) for one in turn.fallbacks] == [("stt", "first", "second")]
    (heard,) = second.streams[0].utterances
    assert heard >= 1.4  # all of the speech, from its onset


@KINDS
def test_with_all_recognisers_down_the_call_closes_by_an_error_and_keeps_the_words_of_the_interim(kind: str) -> None:
    first, second = FirstSTT(), SecondSTT()
    harness = speaking(FallbackSTT([first, second]), ScriptedTTS(), kind)
    harness.caller.makes_noise(0.5, 2.0)

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(1.2)
        first.interim("a table")
        first.fail_open(*[LOST] * 20)
        second.fail_open(*[LOST] * 20)
        first.fail(LOST)

    harness.expects_error("session").expects_error("stt").run(scenario, until=10.0)
    assert ("user", "a table") in harness.messages
    close = harness.session.report().close
    assert close is not None
    assert close.reason == "error"


@KINDS
@pytest.mark.parametrize("fault", ["slow", "lost"])
def test_the_first_recogniser_comes_back_by_time_if_it_was_slow_and_by_a_check_if_it_was_lost(
    kind: str, fault: str
) -> None:
    flushed = STTCapabilities(needs_flush=True)
    first, second = FirstSTT(capabilities=flushed), SecondSTT(["a table for two"], capabilities=flushed)
    if fault == "slow":
        options = FallbackSTTOptions(final_limit=1.0, retry_after=6.0, check_every=None)
    else:
        options = FallbackSTTOptions(retry_after=600.0, check_every=2.0)
    harness = speaking(FallbackSTT([first, second], options), ScriptedTTS(), kind, then="Sure.")
    harness.caller.makes_noise(0.5, 2.0)
    harness.caller.makes_noise(14.0, 15.0)

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(1.2)
        if fault == "lost":
            first.fail(LOST)
        await harness.until(15.3)  # behind the flush
        first.final("at seven")

    harness.run(scenario, until=22.0)
    assert harness.messages[-2:] == [("user", "at seven"), ("assistant", "Sure.")]
    assert harness.messages[0] == ("user", "a table for two")
    before, after = harness.session.turns
    assert [(one.component, one.successor) for one in before.fallbacks] == [("stt", "second")]
    assert after.fallbacks == ()
    assert len(harness.recording.of(ErrorOccurred)) == 1


@KINDS
@pytest.mark.parametrize("when", ["before", "middle"])
def test_a_voice_that_is_too_slow_is_replaced_and_no_word_is_lost_or_heard_twice(
    kind: str, when: Literal["before", "middle"]
) -> None:
    first = FirstTTS(emits_words=True, faults={0: TTSFault(when)})
    options = FallbackTTSOptions(first_byte=0.5, stall=0.5)
    harness = ask(speaking(ScriptedSTT(), FallbackTTS([first, SecondTTS(emits_words=True)], options), kind))
    harness.expect_outcomes("completed")
    harness.expect_history(("user", "first question"), ("assistant", SAID))
    (event,) = harness.recording.of(ErrorOccurred)
    assert isinstance(event.error, ProviderTimeoutError)
    assert harness.session.turns[0].played_seconds == pytest.approx(1.6)


@KINDS
def test_in_a_session_a_check_brings_the_first_voice_back_and_ends_with_the_session(kind: str) -> None:
    first, second = FirstTTS(faults={0: TTSFault("before", LOST)}), SecondTTS()
    harness = speaking(ScriptedSTT(), FallbackTTS([first, second], FallbackTTSOptions(check_every=5.0)), kind)
    harness.caller.says("first question", 0.5, 1.5)

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(12.0)
        await harness.session.say("And now this.")

    harness.run(scenario, until=16.0)
    assert first.texts == [SAID, "Hello.", "And now this."]
    assert second.texts == [SAID]


@KINDS
def test_the_checks_follow_a_change_of_the_components(kind: str) -> None:
    old = [FirstTTS(faults={0: TTSFault("before", LOST)}), SecondTTS()]
    new = [FirstTTS(faults={0: TTSFault("before", LOST)}), SecondTTS()]
    options = FallbackTTSOptions(check_every=5.0)
    harness = speaking(ScriptedSTT(), FallbackTTS(old, options), kind)
    harness.caller.says("first question", 0.5, 1.5)

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(6.0)
        await harness.session.update_components(tts=FallbackTTS(new, options))
        await harness.session.say("And now this.")
        await harness.until(30.0)

    harness.run(scenario, until=30.0)
    assert old[0].texts == [SAID, "Hello."]
    assert new[0].texts == ["And now this.", "Hello."]


def test_the_report_names_the_members_that_served_last() -> None:
    llm, tts = FallbackLLM([FirstLLM([LOST]), SecondLLM(SAID)]), FallbackTTS([FirstTTS(), SecondTTS()])
    stt = ScriptedSTT()
    harness = ask(SessionHarness(Agent("Help."), stt=stt, pipeline=CascadingPipeline(stt=stt, llm=llm, tts=tts)))
    models = {part.kind: part.model for part in harness.session.report().components if part.provider == "fallback"}
    assert models == {"llm": "second", "tts": "first"}
