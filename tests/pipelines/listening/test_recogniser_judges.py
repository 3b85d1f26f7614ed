"""A recogniser that judges the ends of turns, in a pipeline: its calls, its events, and the turn detector beside it."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest

from kit.pipeline import Judge
from vivavoce.pipelines.cascading import CascadingPipeline
from vivavoce.pipelines.events import (
    PipelineEvent,
    RecogniserBack,
    RecogniserLost,
    UserFinal,
    UserInterim,
    UserTurnEnded,
    UserTurnEndedEagerly,
    UserTurnResumed,
)
from vivavoce.pipelines.media.frame import AudioFrame
from vivavoce.pipelines.pipeline import Pipeline, PipelineConnection, having
from vivavoce.pipelines.realtime import RealtimeOptions, RealtimePipeline
from vivavoce.pipelines.realtime_model.base import TurnDetection
from vivavoce.pipelines.speech import ComponentSet
from vivavoce.pipelines.stt.base import STTCapabilities
from vivavoce.pipelines.testing import ScriptedCaller, ScriptedRealtimeModel, ScriptedSTT, ScriptedVAD

Serve = Callable[[Pipeline, Callable[[Any], Awaitable[Any]]], list[tuple[float, PipelineEvent]]]

DECIDES = STTCapabilities(emits_end_of_turn=True)
FRAME = AudioFrame.silence(0.02, 16000)


def judging(*, needs_flush: bool = False) -> ScriptedSTT:
    return ScriptedSTT(capabilities=STTCapabilities(emits_end_of_turn=True, needs_flush=needs_flush))


def judge_all(stt: ScriptedSTT) -> None:
    stt.interim("a ta")
    stt.eager_end_of_turn("a table")
    stt.eager_end_of_turn("a table")
    stt.eager_end_of_turn()
    stt.turn_resumed()
    stt.final("a table")
    stt.end_of_turn()


JUDGED: list[PipelineEvent] = [
    UserInterim(text="a ta"),
    UserInterim(text="a table"),
    UserTurnEndedEagerly(),
    UserTurnEndedEagerly(),
    UserTurnEndedEagerly(),
    UserTurnResumed(),
    UserFinal(text="a table"),
    UserTurnEnded(),
]


def test_the_words_of_an_eager_end_pass_as_an_interim_before_it(serve: Serve) -> None:
    stt = judging()

    async def talk(_: PipelineConnection) -> None:
        judge_all(stt)
        await anyio.sleep(0.1)

    assert [event for _, event in serve(CascadingPipeline(stt=stt), talk)] == JUDGED


@pytest.mark.parametrize("decides", ["local", "remote"])
def test_beside_a_realtime_model_judgements_pass_unless_its_server_decides(
    serve: Serve, decides: TurnDetection
) -> None:
    stt = judging()
    options = RealtimeOptions(turn_detection=decides)
    pipeline = RealtimePipeline(ScriptedRealtimeModel(), stt=stt, vad=ScriptedVAD(), options=options)

    async def talk(_: PipelineConnection) -> None:
        judge_all(stt)
        await anyio.sleep(0.1)

    told = [event for _, event in serve(pipeline, talk)]
    assert told == (
        JUDGED if decides == "local" else [one for one in JUDGED if isinstance(one, UserInterim | UserFinal)]
    )


def test_at_the_end_of_speech_it_is_not_flushed_but_told(serve: Serve) -> None:
    stt, flushed = judging(), judging(needs_flush=True)
    for one in (stt, flushed):
        serve(
            CascadingPipeline(stt=one, vad=ScriptedVAD()),
            lambda connection: ScriptedCaller(connection.push_audio, [(0.5, 1.5)]).run(3.0),
        )
    assert stt.streams[0].speech_ends == pytest.approx([1.7]) == flushed.streams[0].flushes
    assert stt.streams[0].flushes == [] == flushed.streams[0].speech_ends


def test_a_recogniser_is_told_where_the_voice_pauses_and_goes_on(serve: Serve) -> None:
    stt = judging(needs_flush=True)
    spans = [(0.5, 1.0), (1.1, 1.5)]
    serve(
        CascadingPipeline(stt=stt, vad=ScriptedVAD()),
        lambda connection: ScriptedCaller(connection.push_audio, spans).run(3.0),
    )
    edges, times = zip(*stt.streams[0].voice_edges, strict=True)
    assert edges == ("paused", "resumed", "paused")
    assert times == pytest.approx((1.0, 1.1, 1.5), abs=0.03)


@pytest.mark.parametrize("has_vad", [True, False])
def test_a_turn_that_something_else_ends_is_settled_and_one_that_it_ended_is_not(serve: Serve, has_vad: bool) -> None:
    stt = judging()

    async def talk(connection: PipelineConnection) -> None:
        stt.interim("a table")
        await anyio.sleep(0.1)
        connection.commit_audio()
        assert len(stt.stream.flushes) == 1
        stt.final("a table")
        stt.end_of_turn()
        await anyio.sleep(0.1)
        connection.commit_audio()
        connection.audio_stopped()
        assert len(stt.stream.flushes) == 1
        stt.interim("for two")
        await anyio.sleep(0.1)
        connection.audio_stopped()
        assert len(stt.stream.flushes) == 2

    serve(CascadingPipeline(stt=stt, vad=ScriptedVAD() if has_vad else None), talk)


def test_speech_behind_its_end_of_the_turn_is_settled_by_a_request_before_words_show(serve: Serve) -> None:
    stt = judging()

    async def talk(connection: PipelineConnection) -> None:
        stt.end_of_turn()
        await ScriptedCaller(connection.push_audio, [(0.5, 1.5)]).run(1.0)
        connection.commit_audio()

    serve(CascadingPipeline(stt=stt, vad=ScriptedVAD()), talk)
    assert stt.streams[0].flushes == pytest.approx([1.0])
    assert stt.streams[0].speech_starts == pytest.approx([0.5, 1.0])


def test_a_stream_lost_behind_an_eager_end_leaves_its_words_as_a_final(serve: Serve) -> None:
    stt = judging()

    async def talk(_: PipelineConnection) -> None:
        stt.eager_end_of_turn("a table")
        await anyio.sleep(0.1)
        stt.fail()
        await anyio.sleep(1.0)

    told = [event for _, event in serve(CascadingPipeline(stt=stt), talk)]
    assert told[:4] == [
        UserInterim(text="a table"),
        UserTurnEndedEagerly(),
        UserFinal(text="a table"),
        RecogniserLost(),
    ]
    assert RecogniserBack() in told[4:]


# --- the turn detector beside it


def test_a_turn_detector_beside_it_is_neither_opened_nor_fed_nor_asked(
    serve: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    detector = Judge(needs_audio=True)
    with caplog.at_level(logging.WARNING):
        pipeline = CascadingPipeline(stt=judging(), turn_detector=detector)
    assert "stt scripted judges the ends of turns: the turn detector judge is not asked" in caplog.text
    assert (pipeline.capabilities.recogniser_decides, pipeline.capabilities.turn_detector_limit) == (True, None)

    async def talk(connection: PipelineConnection) -> None:
        connection.push_audio(FRAME)
        connection.predict_end_of_turn("a table", "")
        await anyio.sleep(2.0)

    assert serve(pipeline, talk) == []
    assert detector.pushed_seconds == 0.0


def test_the_detector_is_asked_again_beside_another_recogniser() -> None:
    pipeline = CascadingPipeline(stt=judging(), turn_detector=Judge())
    other = having(pipeline, ComponentSet(stt=ScriptedSTT()))
    assert (other.capabilities.recogniser_decides, other.capabilities.turn_detector_limit) == (False, 1.0)
    assert not CascadingPipeline(vad=ScriptedVAD(), tts=None, stt=ScriptedSTT()).capabilities.recogniser_decides


def test_a_change_to_it_leaves_the_detector_and_a_change_back_makes_one(serve: Serve) -> None:
    detector = Judge(needs_audio=True)
    plain = CascadingPipeline(stt=ScriptedSTT(), turn_detector=detector)
    deciding = having(plain, ComponentSet(stt=judging()))
    heard: list[float] = []

    async def talk(connection: PipelineConnection) -> None:
        for pipeline in (deciding, plain):
            change = connection.change(pipeline, lambda _: None)
            assert change is not None
            change.open()
            async with anyio.create_task_group() as tasks:
                for part in change.parts:
                    await tasks.start(part)  # type: ignore[arg-type]
                change.take()
                change.close()
                for _ in range(50):
                    connection.push_audio(FRAME)
                heard.append(detector.pushed_seconds)
                tasks.cancel_scope.cancel()

    serve(plain, talk)
    assert heard[0] == 0.0
    assert heard[1] > 0.9


def test_it_settles_its_turn_when_another_one_takes_its_place_behind_a_pause(serve: Serve) -> None:
    stt = judging()
    plain = CascadingPipeline(stt=stt, vad=ScriptedVAD())
    other = having(plain, ComponentSet(stt=ScriptedSTT()))

    async def talk(connection: PipelineConnection) -> None:
        await ScriptedCaller(connection.push_audio, [(0.2, 0.6)]).run(1.5)
        stt.interim("a table")
        await anyio.sleep(0.1)
        change = connection.change(other, lambda _: None)
        assert change is not None
        change.open()
        async with anyio.create_task_group() as tasks:
            for part in change.parts:
                await tasks.start(part)  # type: ignore[arg-type]
            change.take()
            change.close()
            tasks.cancel_scope.cancel()

    serve(plain, talk)
    assert len(stt.streams[0].flushes) == 1
