"""Fallbacks at their limits in a session: noise, all members down, changes of components, stages, cuts, closes."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from dataclasses import replace

import anyio
import pytest

from kit.realtime import text_realtime_of
from vivavoce.agents import Agent, SessionOptions
from vivavoce.agents.events import ErrorOccurred
from vivavoce.agents.testing import HANG, ScriptedLLM, ScriptedSTT, ScriptedTTS, SessionHarness, TTSFault
from vivavoce.agents.testing.pipelines import cascade
from vivavoce.pipelines import FallbackLLM, FallbackLLMOptions, FallbackSTT, FallbackTTS
from vivavoce.pipelines.core.errors import ProviderConnectionError
from vivavoce.pipelines.events import UserFinal, UserInterim
from vivavoce.pipelines.pipeline import Pipeline
from vivavoce.pipelines.stt.base import STTCapabilities
from vivavoce.pipelines.testing import ScriptedTTSOptions, ScriptedVAD

LOST = ProviderConnectionError("down", provider="first")
FLUSHED = STTCapabilities(needs_flush=True)


PIPELINES: dict[str, Callable[..., Pipeline]] = {"cascading": cascade, "realtime": text_realtime_of}


class FirstSTT(ScriptedSTT):
    provider = "first"


class SecondSTT(ScriptedSTT):
    provider = "second"


class FirstTTS(ScriptedTTS):
    provider = "first"


class SecondTTS(ScriptedTTS):
    provider = "second"


def session(
    stt: FallbackSTT | ScriptedSTT,
    kind: str = "cascading",
    *,
    llm: ScriptedLLM | FallbackLLM | None = None,
    tts: ScriptedTTS | FallbackTTS | None = None,
    agent: Agent | None = None,
) -> SessionHarness:
    answers = llm or ScriptedLLM(default=[0.1, "Sure."])
    pipeline = PIPELINES[kind](answers, stt, tts or ScriptedTTS(), vad=ScriptedVAD())
    listens = stt if isinstance(stt, ScriptedSTT) else None
    options = SessionOptions(preemptive=False)
    return SessionHarness(agent or Agent("Help."), stt=listens, pipeline=pipeline, options=options)


KINDS = pytest.mark.parametrize("kind", list(PIPELINES))


def changes(harness: SessionHarness) -> list[tuple[str, str]]:
    return [(one.source, one.successor) for one in harness.recording.of(ErrorOccurred)]


@KINDS
def test_noise_reports_no_failure_and_the_next_words_are_heard(kind: str) -> None:
    first, second = FirstSTT(), SecondSTT()
    harness = session(FallbackSTT([first, second]), kind)
    harness.caller.makes_noise(0.5, 2.0)
    harness.caller.makes_noise(8.0, 9.0)

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(9.1)
        first.final("a table for two")

    harness.run(scenario, until=14.0)
    harness.expect_history(("user", "a table for two"), ("assistant", "Sure."))
    assert changes(harness) == []
    assert harness.session.turns[-1].fallbacks == ()


@KINDS
def test_a_mute_recogniser_costs_no_word_and_the_turn_names_its_successor(kind: str) -> None:
    first, second = FirstSTT(capabilities=FLUSHED), SecondSTT(["yes"], capabilities=FLUSHED)
    harness = session(FallbackSTT([first, second]), kind)
    harness.caller.makes_noise(0.5, 0.9)
    harness.run(until=8.0)
    harness.expect_history(("user", "yes"), ("assistant", "Sure."))
    assert changes(harness) == [("stt", "second")]


@KINDS
def test_a_fallback_takes_over_in_the_call_from_another_recogniser_and_works_as_one(kind: str) -> None:
    old = ScriptedSTT()
    first, second = FirstSTT(), SecondSTT(["a table for two"])
    harness = session(old, kind)
    harness.caller.makes_noise(4.0, 5.0)

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(2.0)
        await harness.session.update_components(stt=FallbackSTT([first, second]))
        await harness.until(4.5)
        first.fail(LOST)

    harness.run(scenario, until=10.0)
    harness.expect_history(("user", "a table for two"), ("assistant", "Sure."))
    assert changes(harness) == [("stt", "second")]
    assert [stream.is_closed for stream in (*old.streams, *first.streams, *second.streams)] == [True] * 3


@KINDS
def test_a_fallback_that_another_recogniser_replaces_closes_all_its_streams(kind: str) -> None:
    first, second, new = FirstSTT(), SecondSTT(open_delay=HANG), ScriptedSTT(["a table"])
    harness = session(FallbackSTT([first, second]), kind)
    harness.caller.makes_noise(4.0, 5.0)

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(1.9)
        first.fail(LOST)
        await harness.until(2.0)  # the second one is being opened
        await harness.session.update_components(stt=new)

    harness.run(scenario, until=10.0)
    harness.expect_history(("user", "a table"), ("assistant", "Sure."))
    assert second.streams == []


class Upper(Agent):
    """Its stage writes the caller's words in capitals."""

    async def stt_stage(
        self, transcripts: AsyncIterator[UserFinal | UserInterim]
    ) -> AsyncGenerator[UserFinal | UserInterim, None]:
        async for transcript in transcripts:
            yield replace(transcript, text=transcript.text.upper())


@KINDS
def test_words_that_a_successor_hears_again_pass_the_agents_stage_once(kind: str) -> None:
    first, second = FirstSTT(), SecondSTT(["a table"])
    harness = session(FallbackSTT([first, second]), kind, agent=Upper("Help."))
    harness.caller.makes_noise(0.5, 2.0)

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(1.2)
        first.fail(LOST)

    harness.run(scenario, until=8.0)
    harness.expect_history(("user", "A TABLE"), ("assistant", "Sure."))


@KINDS
def test_with_all_voices_down_the_turn_fails_by_a_clear_error_and_the_next_one_is_heard(kind: str) -> None:
    down = {number: TTSFault("before", LOST) for number in range(3)}  # as often as the pipeline tries
    first, second = (
        FirstTTS(faults={0: down[0], 1: down[0], 2: down[0]}),
        SecondTTS(faults=dict.fromkeys(range(3), down[0])),
    )
    harness = session(ScriptedSTT(), kind, tts=FallbackTTS([first, second]))
    harness.caller.says("one", 0.5, 1.0)
    harness.caller.says("two", 10.0, 10.5)
    harness.expects_error("tts").run(until=16.0)
    harness.expect_outcomes("failed", "completed")
    final = [one for one in harness.recording.of(ErrorOccurred) if not one.is_recovered]
    assert [type(one.error) for one in final] == [ProviderConnectionError]


@pytest.mark.parametrize("kind", ["llm", "tts"])
def test_a_cut_while_the_next_member_is_asked_ends_at_once_and_blames_nobody_else(kind: str) -> None:
    models = [ScriptedLLM(default=[HANG]), ScriptedLLM(default=[HANG])]
    voices = [FirstTTS(faults={0: TTSFault("before")}), SecondTTS(first_byte=1.0)]
    if kind == "llm":
        harness = session(ScriptedSTT(), llm=FallbackLLM(models, FallbackLLMOptions(first_token=1.0)))
    else:
        harness = session(ScriptedSTT(), tts=FallbackTTS(voices))
    harness.caller.says("one", 0.5, 1.0)

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(3.5)
        with anyio.fail_after(0.3):
            await harness.session.interrupt()

    harness.run(scenario, until=5.0)
    assert [turn.outcome for turn in harness.session.turns] in (["cancelled"], ["interrupted"])
    assert all(one.is_recovered for one in harness.recording.of(ErrorOccurred))


def test_two_sessions_that_share_a_fallback_report_only_their_own_failures() -> None:
    shared = FallbackLLM([ScriptedLLM([LOST], default=[0.1, "First."]), ScriptedLLM(default=[0.1, "Second."])])

    async def other(harness: SessionHarness) -> None:
        await harness.until(0.0)

    one = session(ScriptedSTT(), llm=shared)
    one.caller.says("one", 0.5, 1.0)
    one.run(other, until=5.0)
    two = session(ScriptedSTT(), llm=shared)
    two.caller.says("two", 0.5, 1.0)
    two.run(other, until=5.0)
    assert changes(one) == [("llm", "scripted")]
    assert changes(two) == []


@KINDS
def test_members_that_hang_at_their_close_do_not_hold_up_the_end_of_the_call(kind: str) -> None:
    first, second = FirstSTT(close_delay=HANG), SecondSTT(close_delay=HANG)
    voice = ScriptedTTS(options=ScriptedTTSOptions(close_delay=0.1))
    harness = session(FallbackSTT([first, second]), kind, tts=FallbackTTS([voice, SecondTTS()]))

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(1.0)
        first.fail(LOST)
        await harness.until(1.5)
        with anyio.fail_after(2.0):
            await harness.session.close()

    harness.run(scenario, until=5.0)
    report = harness.session.report().close
    assert report is not None
    assert report.reason != "error"
