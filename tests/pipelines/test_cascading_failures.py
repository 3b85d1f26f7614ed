"""CascadingPipeline: lost recognisers and turn detectors that fail, in virtual time."""

from __future__ import annotations

import logging
from collections.abc import Callable

import anyio
import anyio.lowlevel
import pytest

from kit.pipeline import Judge
from vivavoce.pipelines import CascadingPipeline
from vivavoce.pipelines.cascading import CascadingConnection
from vivavoce.pipelines.core.errors import (
    ProviderConnectionError,
    ProviderStatusError,
    ProviderTimeoutError,
)
from vivavoce.pipelines.events import (
    PipelineEvent,
    PipelineFailed,
    RecogniserBack,
    RecogniserLost,
    UserFinal,
    UserInterim,
    UserSpeechEnded,
    UserSpeechStarted,
    UserTurnPredicted,
    UserVoicePaused,
)
from vivavoce.pipelines.llm.base import GenerateRequest
from vivavoce.pipelines.llm.chat_context import ChatContext
from vivavoce.pipelines.pipeline import PipelineContext
from vivavoce.pipelines.testing import (
    HANG,
    ScriptedCaller,
    ScriptedSTT,
    ScriptedVAD,
    VirtualClock,
    run_virtual,
)
from vivavoce.pipelines.turn_detector.base import (
    TurnContext,
)

REQUEST = GenerateRequest(context=ChatContext())
LOST = ProviderConnectionError("lost", provider="scripted")
REFUSED = ProviderStatusError("no such key", provider="scripted", status=401)

Serve = Callable[..., list[tuple[float, PipelineEvent]]]


def test_a_lost_stream_is_replaced_and_hears_what_was_missed(serve: Serve) -> None:
    stt = ScriptedSTT(["after"], open_delay=0.2)

    async def talk(connection: CascadingConnection) -> None:
        caller = ScriptedCaller(connection.push_audio, [(0.5, 1.5)])
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(caller.run, 2.0)
            await anyio.sleep(0.9)
            stt.interim("a table")
            await anyio.sleep(0.1)
            stt.fail()

    events = serve(CascadingPipeline(stt=stt, vad=ScriptedVAD()), talk)
    voice = UserSpeechStarted | UserVoicePaused | UserSpeechEnded
    kinds = [event for _, event in events if not isinstance(event, voice)]
    edges = [(at, kinds.pop(2)) for at, event in events if isinstance(event, RecogniserLost | RecogniserBack)]
    assert [event for _, event in edges] == [RecogniserLost(), RecogniserBack()]
    assert [at for at, _ in edges] == pytest.approx([1.2, 1.4])
    assert kinds[0] == UserInterim(text="a table")
    assert kinds[1] == UserFinal(text="a table")  # the words of the lost stream are not lost
    assert isinstance(kinds[2], PipelineFailed)
    assert (kinds[2].recovered, kinds[2].component) == (True, "stt")
    assert kinds[3] == UserFinal(text="after")
    first, second = stt.streams
    assert first.is_closed
    assert first.pushed_seconds + second.pushed_seconds == pytest.approx(2.0)
    assert second.speech_starts == first.speech_starts == pytest.approx([0.7])


def test_speech_that_ends_while_there_is_no_stream_is_flushed_into_the_next_one(serve: Serve) -> None:
    stt = ScriptedSTT(["said in between"], open_delay=0.5)

    async def talk(connection: CascadingConnection) -> None:
        stt.fail()
        await ScriptedCaller(connection.push_audio, [(0.04, 0.2)]).run(2.0)

    events = serve(CascadingPipeline(stt=stt, vad=ScriptedVAD()), talk)
    assert UserFinal(text="said in between") in [event for _, event in events]


def test_frames_kept_for_the_next_stream_are_bounded(serve: Serve) -> None:
    stt = ScriptedSTT(open_delay=60.0)

    async def wait(connection: CascadingConnection) -> None:
        stt.fail()
        await ScriptedCaller(connection.push_audio, []).run(45.0)
        await anyio.sleep(30.0)

    serve(CascadingPipeline(stt=stt), wait, open_limit=100.0)
    assert stt.streams[1].pushed_seconds == pytest.approx(10.0)


def test_opening_is_tried_three_times_half_a_second_apart(serve: Serve) -> None:
    stt = ScriptedSTT()
    stt.fail_open(LOST, LOST)

    async def now(_: CascadingConnection) -> None:
        assert VirtualClock().now() == 1.0

    assert serve(CascadingPipeline(stt=stt), now) == []
    assert stt.open_attempts == 3


@pytest.mark.parametrize("with_detector", [False, True])
@pytest.mark.parametrize(("errors", "attempts"), [((LOST, LOST, LOST), 3), ((REFUSED,), 1)])
def test_a_recogniser_that_cannot_be_had_fails_the_start(
    errors: tuple[ProviderConnectionError, ...], attempts: int, with_detector: bool
) -> None:
    stt = ScriptedSTT()
    stt.fail_open(*errors)
    pipeline = CascadingPipeline(stt=stt, turn_detector=Judge() if with_detector else None)

    async def main() -> None:
        await pipeline.open(PipelineContext(clock=VirtualClock(), emit=lambda _: None)).run()

    with pytest.raises(type(errors[0])):
        run_virtual(main())
    assert stt.open_attempts == attempts


def test_opening_has_a_limit() -> None:
    pipeline = CascadingPipeline(stt=ScriptedSTT(open_delay=HANG))

    async def main() -> None:
        await pipeline.open(PipelineContext(clock=VirtualClock(), emit=lambda _: None, open_limit=2.0)).run()

    with pytest.raises(ProviderTimeoutError, match=r"no stream within 2\.0 s"):
        run_virtual(main())


def test_when_all_tries_fail_the_session_is_told_and_the_connection_lives_on(serve: Serve) -> None:
    stt = ScriptedSTT()

    async def talk(connection: CascadingConnection) -> None:
        stt.final("before")
        await anyio.sleep(1.0)
        stt.fail_open(LOST, LOST, LOST)
        stt.fail()
        await ScriptedCaller(connection.push_audio, [(0.5, 1.0)]).run(2.0)

    events = serve(CascadingPipeline(stt=stt, vad=ScriptedVAD()), talk)
    (failed_at, failed) = next((at, event) for at, event in events if isinstance(event, PipelineFailed))
    assert failed == PipelineFailed(LOST, False, "stt", failed.unheard)
    assert sum(frame.duration for frame in failed.unheard) == pytest.approx(1.0, abs=0.05)
    assert failed_at == 2.0  # lost at 1.0, tried at once and twice half a second apart
    assert isinstance(events[-1][1], UserSpeechEnded)
    assert stt.open_attempts == 4


def test_a_stream_that_breaks_off_as_soon_as_it_is_open_is_given_up(serve: Serve) -> None:
    stt = ScriptedSTT()

    async def break_off(_: CascadingConnection) -> None:
        for _loss in range(3):
            stt.fail()
            await anyio.sleep(0.6)

    events = serve(CascadingPipeline(stt=stt), break_off)
    outcomes = [event.recovered for _, event in events if isinstance(event, PipelineFailed)]
    assert outcomes == [True, True, False]


def test_a_stream_lost_after_a_long_silence_gets_all_tries_anew(serve: Serve) -> None:
    stt = ScriptedSTT()

    async def idle(_: CascadingConnection) -> None:
        for _loss in range(5):
            await anyio.sleep(60)
            stt.fail()
        await anyio.sleep(1)

    events = serve(CascadingPipeline(stt=stt), idle)
    assert [event.recovered for _, event in events if isinstance(event, PipelineFailed)] == [True] * 5


def test_a_close_that_hangs_is_bounded(caplog: pytest.LogCaptureFixture) -> None:
    stt = ScriptedSTT(close_delay=HANG)

    async def main() -> float:
        connection = CascadingPipeline(stt=stt).open(PipelineContext(clock=VirtualClock(), emit=lambda _: None))
        async with anyio.create_task_group() as tasks:
            await tasks.start(connection.run)
            tasks.cancel_scope.cancel()
        await connection.aclose()
        return VirtualClock().now()

    with caplog.at_level(logging.WARNING):
        assert run_virtual(main()) == 1.0
    assert "closing a stream took more than 1.0 s" in caplog.text


def test_a_verdict_is_asked_for_in_the_background(serve: Serve) -> None:
    judge = Judge(delay=0.3)

    async def ask(connection: CascadingConnection) -> None:
        connection.predict_end_of_turn("a table and", "For when?")
        await anyio.sleep(1)

    events = serve(CascadingPipeline(stt=ScriptedSTT(), turn_detector=judge), ask)
    assert events == [(0.3, UserTurnPredicted(False, 0.25))]
    assert judge.asked == [TurnContext(text="a table and", agent_text="For when?")]


def test_without_a_detector_nothing_is_predicted(serve: Serve) -> None:
    async def ask(connection: CascadingConnection) -> None:
        connection.predict_end_of_turn("a table", "")
        await anyio.sleep(1)

    assert serve(CascadingPipeline(stt=ScriptedSTT()), ask) == []


@pytest.mark.parametrize("judge", [Judge(error=LOST), Judge(delay=5.0)])
def test_a_detector_that_fails_or_hangs_counts_as_complete(
    serve: Serve, judge: Judge, caplog: pytest.LogCaptureFixture
) -> None:
    async def ask(connection: CascadingConnection) -> None:
        for _ in range(2):
            connection.predict_end_of_turn("a table", "")
            await anyio.sleep(1.5)

    events = serve(CascadingPipeline(stt=ScriptedSTT(), turn_detector=judge), ask)
    assert [event for _, event in events if isinstance(event, UserTurnPredicted)] == [UserTurnPredicted(True)] * 2
    failures = [event for _, event in events if isinstance(event, PipelineFailed)]
    assert [(failure.component, failure.recovered) for failure in failures] == [("turn_detector", True)] * 2
    assert "no end-of-turn verdict" in caplog.text


def test_a_newer_question_and_new_speech_make_a_verdict_stale(serve: Serve) -> None:
    judge = Judge(delay=0.4)

    async def ask(connection: CascadingConnection) -> None:
        connection.predict_end_of_turn("a", "")
        await anyio.sleep(0.1)
        connection.predict_end_of_turn("a table", "")
        await anyio.sleep(0.5)
        connection.predict_end_of_turn("a table for", "")
        await ScriptedCaller(connection.push_audio, [(0.1, 0.5)]).run(2.0)

    events = serve(CascadingPipeline(stt=ScriptedSTT(), vad=ScriptedVAD(), turn_detector=judge), ask)
    predictions = [at for at, event in events if isinstance(event, UserTurnPredicted)]
    assert predictions == pytest.approx([0.5])
    assert [context.text for context in judge.asked] == ["a", "a table", "a table for"]
