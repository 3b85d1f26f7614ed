"""A VAD, a denoiser and a turn detector with faulty code: the call continues without them, as well as it can."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kit.pipeline import Judge
from vivavoce.agents import Agent
from vivavoce.agents.events import ErrorOccurred
from vivavoce.agents.testing import (
    ScriptedLLM,
    ScriptedRealtimeModel,
    ScriptedSTT,
    ScriptedTTS,
    ScriptedVAD,
    SessionHarness,
)
from vivavoce.pipelines.cascading import CascadingPipeline
from vivavoce.pipelines.core.errors import ProviderError
from vivavoce.pipelines.denoise.base import Denoiser, DenoiseStream
from vivavoce.pipelines.media.frame import AudioFrame
from vivavoce.pipelines.pipeline import Pipeline
from vivavoce.pipelines.realtime import RealtimeOptions, RealtimePipeline
from vivavoce.pipelines.stt.base import STTCapabilities
from vivavoce.pipelines.testing.scripted_vad import ScriptedVADStream
from vivavoce.pipelines.turn_detector.base import EndOfTurnPrediction, TurnDetector
from vivavoce.pipelines.vad.base import VADSpeechStarted

Make = Callable[..., Pipeline]


def cascade(stt: ScriptedSTT, **ears: Any) -> Pipeline:
    return CascadingPipeline(stt=stt, llm=ScriptedLLM(default="All is well."), tts=ScriptedTTS(), **ears)


def realtime(stt: ScriptedSTT, *, turn_detection: Any = None, **ears: Any) -> Pipeline:
    model = ScriptedRealtimeModel(*["All is well."] * 4)
    return RealtimePipeline(
        model, stt=stt, tts=ScriptedTTS(), options=RealtimeOptions(turn_detection=turn_detection), **ears
    )


BOTH = pytest.mark.parametrize("make", [cascade, realtime])


def talk(
    make: Make, *, until: float = 9.0, stt: ScriptedSTT | None = None, closes: bool = False, **ears: Any
) -> SessionHarness:
    """The caller speaks from 0.5 to 1.5 and from 5 to 6."""
    stt = stt or ScriptedSTT()
    harness = SessionHarness(Agent("Help."), stt=stt, pipeline=make(stt, **ears))
    if closes:
        harness.expects_error("session")
    harness.caller.says("hello there", 0.5, 1.5)
    harness.caller.says("and now", 5.0, 6.0)
    return harness.run(until=until)


def errors(harness: SessionHarness) -> list[tuple[str, bool]]:
    for event in harness.recording.of(ErrorOccurred):
        assert isinstance(event.error, ProviderError)
        assert "secret" not in str(event.error)
    return [(event.source, event.is_recovered) for event in harness.recording.of(ErrorOccurred)]


class FaultyVAD(ScriptedVAD):
    """A VAD whose streams misbehave at certain frames.

    Args:
        at: For each stream, the frame that fails; streams after the last one work.
        how: The returned value, or the exception.
    """

    def __init__(self, *at: int, how: object = KeyError("secret"), cannot_open_again: bool = False) -> None:
        super().__init__()
        self.at = list(at)
        self.how = how
        self.cannot_open_again = cannot_open_again
        self.opened = 0

    def open(self) -> ScriptedVADStream:
        self.opened += 1
        if self.opened > 1 and self.cannot_open_again:
            raise OSError("secret")
        stream = super().open()
        if self.at:
            fails_at(stream, "push", self.at.pop(0), self.how)
        return stream


def fails_at(stream: object, method: str, number: int, how: object) -> None:
    works, calls = getattr(stream, method), 0

    def call(*args: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls != number:
            return works(*args)
        if isinstance(how, BaseException):
            raise how
        return how

    setattr(stream, method, call)


@BOTH
@pytest.mark.parametrize(
    "how",
    [KeyError("secret"), SystemExit(3), None, ["speech"], [VADSpeechStarted(float("nan"))], [VADSpeechStarted(None)]],  # type: ignore[arg-type]
)
def test_a_vad_that_fails_once_is_opened_again(make: Make, how: object) -> None:
    vad = FaultyVAD(10, how=how)
    harness = talk(make, vad=vad)
    harness.expect_outcomes("completed", "completed")
    assert errors(harness) == [("vad", True)]
    assert vad.opened == 2


@BOTH
def test_a_vad_that_fails_while_the_caller_speaks_loses_no_turn(make: Make) -> None:
    harness = talk(make, vad=FaultyVAD(50))  # at 1.0
    assert errors(harness) == [("vad", True)]
    assert [text for role, text in harness.messages if role == "user"] == ["hello there", "and now"]
    assert [turn.outcome for turn in harness.session.turns][-1] == "completed"
    assert harness.session.user_state != "speaking"


def test_a_vad_that_fails_three_times_in_a_row_is_given_up_where_the_recogniser_needs_none() -> None:
    vad = FaultyVAD(1, 1, 1, 1)
    harness = talk(cascade, vad=vad)
    assert errors(harness) == [("vad", True)] * 3
    assert vad.opened == 3
    harness.expect_outcomes("completed", "completed")
    assert [text for role, text in harness.messages if role == "user"] == ["hello there", "and now"]


def test_a_vad_that_is_given_up_while_the_caller_speaks_leaves_nobody_speaking() -> None:
    harness = talk(cascade, vad=FaultyVAD(50, 1, 1))
    assert errors(harness) == [("vad", True)] * 3
    assert [text for role, text in harness.messages if role == "user"] == ["hello there", "and now"]


def test_failures_of_a_vad_that_are_far_apart_are_forgotten() -> None:
    vad = FaultyVAD(10, *[300] * 5)  # each 6 s
    harness = talk(cascade, vad=vad, until=40.0)
    assert errors(harness) == [("vad", True)] * 6
    assert vad.opened == 7


def test_a_vad_that_cannot_be_opened_again_is_given_up() -> None:
    harness = talk(cascade, vad=FaultyVAD(10, cannot_open_again=True))
    assert errors(harness) == [("vad", True)] * 3
    harness.expect_outcomes("completed", "completed")


def test_a_lost_vad_ends_the_call_where_the_recogniser_needs_one() -> None:
    harness = talk(
        cascade,
        until=0.4,
        stt=ScriptedSTT(capabilities=STTCapabilities(needs_flush=True)),
        closes=True,
        vad=FaultyVAD(1, 1, 1),
    )
    assert errors(harness) == [("vad", True), ("vad", True), ("vad", False)]
    assert harness.close_report is not None
    assert harness.close_report.reason == "error"


def test_a_lost_vad_ends_the_call_where_a_realtime_session_decides_turns() -> None:
    harness = talk(realtime, until=0.4, closes=True, vad=FaultyVAD(1, 1, 1))
    assert errors(harness) == [("vad", True), ("vad", True), ("vad", False)]
    assert harness.close_report is not None
    assert harness.close_report.reason == "error"


def test_a_lost_vad_beside_a_server_that_decides_turns_leaves_the_servers_word_for_it() -> None:
    model = ScriptedRealtimeModel("All is well.")
    pipeline = RealtimePipeline(model, vad=FaultyVAD(1, 1, 1), options=RealtimeOptions(turn_detection="remote"))
    harness = SessionHarness(Agent("Help."), pipeline=pipeline)

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(1.0)
        model.speech_started()
        await harness.until(1.1)
        assert harness.session.user_state == "speaking"

    harness.run(scenario)
    assert errors(harness) == [("vad", True)] * 3


@BOTH
def test_a_vad_that_cannot_forget_is_opened_again(make: Make) -> None:
    class Clinging(ScriptedVAD):
        def open(self) -> ScriptedVADStream:
            stream = super().open()
            if len(self.streams) == 1:
                fails_at(stream, "reset", 1, KeyError("secret"))
            return stream

    stt = ScriptedSTT()
    harness = SessionHarness(Agent("Help."), stt=stt, pipeline=make(stt, vad=Clinging()))
    harness.caller.says("hello there", 0.5, 1.5)
    harness.caller.leaves(3.5)
    harness.caller.joins(4.0)
    harness.caller.says("and now", 5.0, 6.0)
    harness.run(until=9.0)
    assert errors(harness) == [("vad", True)]
    harness.expect_outcomes("completed", "completed")


class FaultyDenoiser(Denoiser, DenoiseStream):
    """Halves each frame, until its tenth."""

    provider = "faulty"

    def __init__(self, how: object) -> None:
        self.how = how
        self.frames = 0

    def open(self) -> DenoiseStream:
        return self

    def push(self, frame: AudioFrame) -> AudioFrame:
        self.frames += 1
        if self.frames < 10:
            return frame
        if isinstance(self.how, BaseException):
            raise self.how
        return self.how  # type: ignore[return-value]

    def close(self) -> None:
        raise KeyError("secret")


@BOTH
@pytest.mark.parametrize(
    "how", [KeyError("secret"), SystemExit(3), None, b"\0\0", AudioFrame(b"\0\0", 16000), AudioFrame(b"\0" * 640, 8000)]
)
def test_a_denoiser_that_fails_is_left_out_from_there_on(make: Make, how: object) -> None:
    denoiser = FaultyDenoiser(how)
    harness = talk(make, vad=ScriptedVAD(), denoise=denoiser)
    assert errors(harness) == [("denoise", True)]
    assert denoiser.frames == 10
    harness.expect_outcomes("completed", "completed")


class FaultyJudge(Judge):
    """A detector that raises, or gives a verdict of another kind, or cannot hear."""

    def __init__(self, verdict: object = None, *, error: Exception | None = None, deaf: bool = False) -> None:
        super().__init__(error=error, needs_audio=deaf)
        self.verdict = verdict
        self.deaf = deaf
        self.opened = 0

    def open(self) -> Judge:
        self.opened += 1
        return self

    def push(self, frame: AudioFrame) -> None:
        if self.deaf:
            raise KeyError("secret")

    async def predict(self, context: Any) -> Any:
        if self.verdict is None:
            return await super().predict(context)
        return self.verdict


@BOTH
@pytest.mark.parametrize(
    "detector",
    [
        FaultyJudge(error=KeyError("secret")),
        FaultyJudge(verdict=True),
        FaultyJudge(verdict=EndOfTurnPrediction(None, 1.0)),  # type: ignore[arg-type]
        FaultyJudge(verdict=EndOfTurnPrediction(True, float("nan"))),
    ],
)
def test_a_detector_that_fails_counts_as_complete_and_each_failure_is_told(make: Make, detector: TurnDetector) -> None:
    harness = talk(make, vad=ScriptedVAD(), turn_detector=detector)
    harness.expect_outcomes("completed", "completed")
    assert errors(harness) == [("turn_detector", True)] * 2


@BOTH
def test_a_detector_that_cannot_hear_is_given_up_and_turns_end_without_it(make: Make) -> None:
    detector = FaultyJudge(deaf=True)
    harness = talk(make, vad=ScriptedVAD(), turn_detector=detector)
    harness.expect_outcomes("completed", "completed")
    assert errors(harness) == [("turn_detector", True)] * 3
    assert detector.opened == 3


class NoVAD(ScriptedVAD):
    def open(self) -> ScriptedVADStream:
        raise KeyError("secret")


class NoDenoiser(FaultyDenoiser):
    def open(self) -> DenoiseStream:
        raise KeyError("secret")


class NoJudge(Judge):
    def open(self) -> Judge:
        raise KeyError("secret")


@BOTH
@pytest.mark.parametrize("ears", [{"vad": NoVAD()}, {"denoise": NoDenoiser(None)}, {"turn_detector": NoJudge()}])
def test_a_part_that_cannot_be_opened_at_the_start_fails_it_as_a_provider(make: Make, ears: dict[str, Any]) -> None:
    stt = ScriptedSTT()
    harness = SessionHarness(Agent("Help."), stt=stt, pipeline=make(stt, **{"vad": ScriptedVAD(), **ears}))
    with pytest.raises(ProviderError, match="it raised KeyError"):
        harness.run()
