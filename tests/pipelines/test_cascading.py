"""CascadingPipeline: what it can do, what it tells its session, and how it gets over failures, in virtual time."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from vivavoce.pipelines import CascadingPipeline
from vivavoce.pipelines.cascading import CascadingConnection, CascadingOptions
from vivavoce.pipelines.core.errors import (
    CapabilityError,
    ConfigurationError,
    ProviderConnectionError,
    ProviderStatusError,
    ProviderTimeoutError,
)
from vivavoce.pipelines.core.retry import RetryOptions
from vivavoce.pipelines.denoise.base import DenoiseCapabilities, Denoiser, DenoiseStream
from vivavoce.pipelines.events import (
    PipelineEvent,
    PipelineFailed,
    UserFinal,
    UserInterim,
    UserSpeechEnded,
    UserSpeechStarted,
    UserTurnEnded,
    UserTurnPredicted,
)
from vivavoce.pipelines.llm.base import Done, GenerateRequest, TextDelta, Usage
from vivavoce.pipelines.llm.chat_context import ChatContext
from vivavoce.pipelines.llm.tools import ToolCall
from vivavoce.pipelines.media.frame import AudioFrame
from vivavoce.pipelines.pipeline import PipelineContext
from vivavoce.pipelines.stt.base import STTCapabilities
from vivavoce.pipelines.testing import (
    HANG,
    ScriptedCaller,
    ScriptedLLM,
    ScriptedSTT,
    ScriptedTTS,
    ScriptedVAD,
    TTSFault,
    VirtualClock,
    run_virtual,
)
from vivavoce.pipelines.turn_detector.base import (
    EndOfTurnPrediction,
    TurnContext,
    TurnDetector,
    TurnDetectorCapabilities,
    TurnDetectorStream,
)

REQUEST = GenerateRequest(context=ChatContext())
LOST = ProviderConnectionError("lost", provider="scripted")
REFUSED = ProviderStatusError("no such key", provider="scripted", status=401)

Timed = list[tuple[float, PipelineEvent]]


def serve(
    pipeline: CascadingPipeline,
    act: Callable[[CascadingConnection], Awaitable[Any]],
    *,
    input_rate: int = 16000,
) -> Timed:
    """Run `act` on an open connection; return the events with their times."""

    async def main() -> Timed:
        clock, events = VirtualClock(), Timed()
        context = PipelineContext(
            clock=clock, emit=lambda event: events.append((clock.now(), event)), input_rate=input_rate
        )
        connection = pipeline.open(context)
        async with anyio.create_task_group() as tasks:
            await tasks.start(connection.run)
            await act(connection)
            tasks.cancel_scope.cancel()
        await connection.aclose()
        return events

    return run_virtual(main())


class Judge(TurnDetector, TurnDetectorStream):
    """Gives its verdict after a delay, or fails."""

    provider = "judge"

    def __init__(
        self, *, delay: float = 0.0, error: Exception | None = None, complete: bool = False, needs_audio: bool = False
    ) -> None:
        self._delay = delay
        self._error = error
        self._complete = complete
        self._needs_audio = needs_audio
        self.asked: list[TurnContext] = []
        self.pushed_seconds = 0.0
        self.is_closed = False

    @property
    def capabilities(self) -> TurnDetectorCapabilities:
        return TurnDetectorCapabilities(needs_audio=self._needs_audio, sample_rate=8000)

    def open(self) -> TurnDetectorStream:
        return self

    def push(self, frame: AudioFrame) -> None:
        assert frame.sample_rate == 8000
        self.pushed_seconds += frame.duration

    async def predict(self, context: TurnContext) -> EndOfTurnPrediction:
        self.asked.append(context)
        await anyio.sleep(self._delay)
        if self._error is not None:
            raise self._error
        return EndOfTurnPrediction(complete=self._complete, probability=0.25)

    def close(self) -> None:
        self.is_closed = True


class Muter(Denoiser, DenoiseStream):
    """Makes everything silent."""

    provider = "muter"

    def __init__(self) -> None:
        self.is_closed = False

    @property
    def capabilities(self) -> DenoiseCapabilities:
        return DenoiseCapabilities(sample_rate=48000, delay=0.01)

    def open(self) -> DenoiseStream:
        return self

    def push(self, frame: AudioFrame) -> AudioFrame:
        assert frame.sample_rate == 48000
        return AudioFrame(bytes(len(frame.data)), frame.sample_rate)

    def close(self) -> None:
        self.is_closed = True


# --- what it is made of ------------------------------------------------------


def test_capabilities_follow_from_the_components() -> None:
    pipeline = CascadingPipeline(
        stt=ScriptedSTT(), llm=ScriptedLLM(), tts=ScriptedTTS(sample_rate=22050), vad=ScriptedVAD()
    )
    can = pipeline.capabilities
    assert (can.can_listen, can.can_say, can.can_reply, can.takes_flow) == (True, True, True, True)
    assert (can.output_rate, can.vad_silence, can.decides_turns) == (22050, 0.2, "local")
    assert [kind for kind, _, _ in can.components] == ["stt", "llm", "tts", "vad"]


def test_without_a_model_it_says_and_takes_a_flow_but_does_not_reply() -> None:
    can = CascadingPipeline(tts=ScriptedTTS()).capabilities
    assert (can.can_listen, can.can_say, can.can_reply, can.takes_flow) == (False, True, False, True)


def test_without_a_voice_it_only_listens() -> None:
    can = CascadingPipeline(stt=ScriptedSTT(), llm=ScriptedLLM()).capabilities
    assert (can.can_listen, can.can_say, can.can_reply, can.takes_flow) == (True, False, False, False)


def test_a_recogniser_that_needs_flush_is_refused_without_a_vad() -> None:
    stt = ScriptedSTT(capabilities=STTCapabilities(needs_flush=True))
    with pytest.raises(CapabilityError, match="give CascadingPipeline a vad"):
        CascadingPipeline(stt=stt)
    CascadingPipeline(stt=stt, vad=ScriptedVAD())


def test_a_turn_detector_that_needs_text_is_refused_without_an_stt() -> None:
    with pytest.raises(CapabilityError, match="give CascadingPipeline an stt"):
        CascadingPipeline(tts=ScriptedTTS(), turn_detector=Judge())


def test_an_empty_pipeline_and_a_wrong_component_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="an stt or a tts"):
        CascadingPipeline(llm=ScriptedLLM())
    with pytest.raises(ConfigurationError, match=r"stt must be an instance of STT.*call the class"):
        CascadingPipeline(stt=ScriptedSTT)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="tts must be an instance of TTS"):
        CascadingPipeline(tts=ScriptedVAD())  # type: ignore[arg-type]


def test_options_check_themselves() -> None:
    with pytest.raises(ValueError, match="turn_detector_limit"):
        CascadingOptions(turn_detector_limit=0)
    with pytest.raises(ValueError, match="waits"):
        RetryOptions(waits=(-1.0,))


def test_a_pipeline_serves_one_session_at_a_time() -> None:
    pipeline = CascadingPipeline(stt=ScriptedSTT(), tts=ScriptedTTS())

    async def open_again(_: CascadingConnection) -> None:
        with pytest.raises(ConfigurationError, match="attached already"):
            pipeline.open(PipelineContext(clock=VirtualClock(), emit=lambda _: None))

    serve(pipeline, open_again)
    serve(pipeline, open_again)


def test_what_is_missing_is_named_when_it_is_called() -> None:
    async def ask(connection: CascadingConnection) -> None:
        with pytest.raises(CapabilityError, match="give CascadingPipeline an llm"):
            connection.generate(REQUEST)
        with pytest.raises(CapabilityError, match="give CascadingPipeline a tts"):
            connection.speak("hello")

    serve(CascadingPipeline(stt=ScriptedSTT()), ask)


# --- listening ---------------------------------------------------------------


def test_speech_is_told_with_its_true_times_and_its_transcript_follows() -> None:
    stt = ScriptedSTT(["a table for two"], final_delay=0.25)
    events = serve(
        CascadingPipeline(stt=stt, vad=ScriptedVAD()),
        lambda connection: ScriptedCaller(connection.push_audio, [(0.5, 2.5)]).run(3.0),
    )
    (started_at, started), (ended_at, ended), (final_at, final) = events
    assert isinstance(started, UserSpeechStarted)
    assert isinstance(ended, UserSpeechEnded)
    assert (started_at, started.at) == pytest.approx((0.56, 0.5))
    assert (ended_at, ended.at) == pytest.approx((2.7, 2.5))
    assert final_at == pytest.approx(2.95)
    assert final == UserFinal(text="a table for two")
    assert stt.streams[0].speech_starts == pytest.approx([0.5])
    assert stt.streams[0].flushes == pytest.approx([2.7])
    assert stt.streams[0].pushed_seconds == pytest.approx(3.0)


def test_interims_finals_and_ends_of_turns_pass() -> None:
    stt = ScriptedSTT()

    async def talk(_: CascadingConnection) -> None:
        stt.interim("a ta")
        stt.final("a table", audio_seconds=1.5)
        stt.end_of_turn()
        await anyio.sleep(0.1)

    events = serve(CascadingPipeline(stt=stt), talk)
    assert [event for _, event in events] == [
        UserInterim(text="a ta"),
        UserFinal(text="a table", audio_seconds=1.5),
        UserTurnEnded(),
    ]


def test_each_component_gets_its_own_rate_and_the_denoiser_comes_first() -> None:
    stt, vad, muter = ScriptedSTT(["never"]), ScriptedVAD(sample_rate=8000), Muter()
    judge = Judge(needs_audio=True)
    pipeline = CascadingPipeline(stt=stt, vad=vad, denoise=muter, turn_detector=judge)
    events = serve(
        pipeline,
        lambda connection: ScriptedCaller(connection.push_audio, [(0.2, 1.0)], sample_rate=44100).run(2.0),
        input_rate=44100,
    )
    assert events == []  # the VAD heard the denoiser's silence
    assert stt.streams[0].pushed_seconds == pytest.approx(2.0, abs=0.02)
    assert judge.pushed_seconds == pytest.approx(2.0, abs=0.02)
    assert muter.is_closed
    assert judge.is_closed
    assert vad.streams[0].is_closed


def test_the_delay_of_the_denoiser_is_taken_off_the_times() -> None:
    vad = ScriptedVAD()

    async def talk(connection: CascadingConnection) -> None:
        await anyio.sleep(1.0)
        for _ in range(10):  # the resamplers around the denoiser hold some audio back
            connection.push_audio(AudioFrame.silence(0.02, 16000))
        vad.start(ago=0.1)
        connection.push_audio(AudioFrame.silence(0.02, 16000))

    events = serve(CascadingPipeline(stt=ScriptedSTT(), vad=vad, denoise=Muter()), talk)
    assert events == [(1.0, UserSpeechStarted(at=1.0 - 0.11))]


def test_the_end_of_a_turn_flushes_what_is_open_and_only_that() -> None:
    stt = ScriptedSTT()

    async def turn(connection: CascadingConnection) -> None:
        connection.commit_audio()
        connection.clear_audio()
        await anyio.lowlevel.checkpoint()

    serve(CascadingPipeline(stt=stt), turn)
    assert (len(stt.streams[0].flushes), len(stt.streams[0].discards)) == (1, 1)

    async def turn_after_speech(connection: CascadingConnection) -> None:
        await ScriptedCaller(connection.push_audio, [(0.1, 1.0)]).run(1.0)
        connection.commit_audio()
        await ScriptedCaller(connection.push_audio, []).run(0.5)
        connection.commit_audio()

    serve(CascadingPipeline(stt=stt, vad=ScriptedVAD()), turn_after_speech)
    assert stt.streams[1].flushes == pytest.approx([1.0, 1.2])


def test_a_session_costs_one_task_and_a_second_one_for_a_turn_detector() -> None:
    async def count(_: CascadingConnection) -> None:
        counts.append(len(asyncio.all_tasks()))

    counts: list[int] = []
    serve(CascadingPipeline(stt=ScriptedSTT(), tts=ScriptedTTS(), vad=ScriptedVAD()), count)
    serve(CascadingPipeline(tts=ScriptedTTS()), count)
    serve(CascadingPipeline(stt=ScriptedSTT(), tts=ScriptedTTS(), turn_detector=Judge()), count)
    assert counts == [2, 2, 3]  # the test's own task is one of them


# --- losing the recogniser ---------------------------------------------------


def test_a_lost_stream_is_replaced_and_hears_what_was_missed() -> None:
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
    kinds = [event for _, event in events if not isinstance(event, UserSpeechStarted | UserSpeechEnded)]
    assert kinds[0] == UserInterim(text="a table")
    assert kinds[1] == UserFinal(text="a table")  # the words of the lost stream are not lost
    assert isinstance(kinds[2], PipelineFailed)
    assert (kinds[2].recovered, kinds[2].component) == (True, "stt")
    assert kinds[3] == UserFinal(text="after")
    first, second = stt.streams
    assert first.is_closed
    assert first.pushed_seconds + second.pushed_seconds == pytest.approx(2.0)
    assert second.speech_starts == first.speech_starts == pytest.approx([0.7])


def test_speech_that_ends_while_there_is_no_stream_is_flushed_into_the_next_one() -> None:
    stt = ScriptedSTT(["said in between"], open_delay=0.5)

    async def talk(connection: CascadingConnection) -> None:
        stt.fail()
        await ScriptedCaller(connection.push_audio, [(0.04, 0.2)]).run(2.0)

    events = serve(CascadingPipeline(stt=stt, vad=ScriptedVAD()), talk)
    assert UserFinal(text="said in between") in [event for _, event in events]


def test_frames_kept_for_the_next_stream_are_bounded() -> None:
    stt = ScriptedSTT(open_delay=60.0)

    async def wait(connection: CascadingConnection) -> None:
        stt.fail()
        await ScriptedCaller(connection.push_audio, []).run(45.0)
        await anyio.sleep(30.0)

    context_limit = 100.0

    async def main() -> None:
        connection = CascadingPipeline(stt=stt).open(
            PipelineContext(clock=VirtualClock(), emit=lambda _: None, open_limit=context_limit)
        )
        async with anyio.create_task_group() as tasks:
            await tasks.start(connection.run)
            await wait(connection)
            tasks.cancel_scope.cancel()

    run_virtual(main())
    assert stt.streams[1].pushed_seconds == pytest.approx(10.0)


def test_opening_is_tried_three_times_half_a_second_apart() -> None:
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


def test_when_all_tries_fail_the_session_is_told_and_the_connection_lives_on() -> None:
    stt = ScriptedSTT()

    async def talk(connection: CascadingConnection) -> None:
        stt.final("before")
        await anyio.sleep(1.0)
        stt.fail_open(LOST, LOST, LOST)
        stt.fail()
        await ScriptedCaller(connection.push_audio, [(0.5, 1.0)]).run(2.0)

    events = serve(CascadingPipeline(stt=stt, vad=ScriptedVAD()), talk)
    (failed_at, failed) = next((at, event) for at, event in events if isinstance(event, PipelineFailed))
    assert failed == PipelineFailed(LOST, False, "stt")
    assert failed_at == 2.0  # lost at 1.0, tried at once and twice half a second apart
    assert isinstance(events[-1][1], UserSpeechEnded)
    assert stt.open_attempts == 4


def test_a_stream_that_breaks_off_as_soon_as_it_is_open_is_given_up() -> None:
    stt = ScriptedSTT()

    async def break_off(_: CascadingConnection) -> None:
        for _ in range(3):
            stt.fail()
            await anyio.sleep(0.6)

    events = serve(CascadingPipeline(stt=stt), break_off)
    outcomes = [event.recovered for _, event in events if isinstance(event, PipelineFailed)]
    assert outcomes == [True, True, False]


def test_a_stream_lost_after_a_long_silence_gets_all_tries_anew() -> None:
    stt = ScriptedSTT()

    async def idle(_: CascadingConnection) -> None:
        for _ in range(5):
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


# --- turn detection ----------------------------------------------------------


def test_a_verdict_is_asked_for_in_the_background() -> None:
    judge = Judge(delay=0.3)

    async def ask(connection: CascadingConnection) -> None:
        connection.predict_end_of_turn("a table and", "For when?")
        await anyio.sleep(1)

    events = serve(CascadingPipeline(stt=ScriptedSTT(), turn_detector=judge), ask)
    assert events == [(0.3, UserTurnPredicted(False, 0.25))]
    assert judge.asked == [TurnContext(text="a table and", agent_text="For when?")]


def test_without_a_detector_nothing_is_predicted() -> None:
    async def ask(connection: CascadingConnection) -> None:
        connection.predict_end_of_turn("a table", "")
        await anyio.sleep(1)

    assert serve(CascadingPipeline(stt=ScriptedSTT()), ask) == []


@pytest.mark.parametrize("judge", [Judge(error=LOST), Judge(delay=5.0)])
def test_a_detector_that_fails_or_hangs_counts_as_complete(judge: Judge, caplog: pytest.LogCaptureFixture) -> None:
    async def ask(connection: CascadingConnection) -> None:
        for _ in range(2):
            connection.predict_end_of_turn("a table", "")
            await anyio.sleep(1.5)

    events = serve(CascadingPipeline(stt=ScriptedSTT(), turn_detector=judge), ask)
    assert [event for _, event in events] == [UserTurnPredicted(True)] * 2
    assert "no end-of-turn verdict" in caplog.text


def test_a_newer_question_and_new_speech_make_a_verdict_stale() -> None:
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


# --- answering ---------------------------------------------------------------


def generate(llm: ScriptedLLM) -> tuple[list[object], float]:
    """Return what one step yields, and when it was over."""
    taken: list[object] = []

    async def ask(connection: CascadingConnection) -> None:
        async with aclosing(connection.generate(REQUEST)) as events:
            async for event in events:
                taken.append(event)
        taken.append(VirtualClock().now())

    serve(CascadingPipeline(tts=ScriptedTTS(), llm=llm), ask)
    over_at = taken.pop()
    assert isinstance(over_at, float)
    return taken, over_at


def test_a_step_is_tried_again_until_it_has_said_something() -> None:
    taken, over_at = generate(ScriptedLLM([LOST], [Usage(input_tokens=3), LOST], "Sure."))
    assert taken == [TextDelta("Sure."), Done()]
    assert over_at == 0.1 + 2.0


def test_a_step_is_not_tried_again_once_it_has_said_or_called_something() -> None:
    call = ToolCall(call_id="1", name="book", arguments="{}")
    for begun in ("Su", call):
        llm = ScriptedLLM([begun, LOST], "never")
        with pytest.raises(ExceptionGroup) as caught:
            generate(llm)
        assert caught.group_contains(ProviderConnectionError, match="lost")
        assert len(llm.requests) == 1


def test_three_tries_are_all() -> None:
    llm = ScriptedLLM([LOST], [LOST], [LOST], "never")
    with pytest.raises(ExceptionGroup) as caught:
        generate(llm)
    assert caught.group_contains(ProviderConnectionError)
    assert len(llm.requests) == 3


def test_an_error_that_is_not_retryable_is_not_tried_again() -> None:
    llm = ScriptedLLM([REFUSED], "never")
    with pytest.raises(ExceptionGroup) as caught:
        generate(llm)
    assert caught.group_contains(ProviderStatusError)
    assert len(llm.requests) == 1


def test_closing_an_answer_cancels_the_request() -> None:
    llm = ScriptedLLM(["Sure. ", 5.0, "never"])

    async def ask(connection: CascadingConnection) -> None:
        async with aclosing(connection.generate(REQUEST)) as events:
            assert await anext(events) == TextDelta("Sure. ")

    serve(CascadingPipeline(tts=ScriptedTTS(), llm=llm), ask)
    assert llm.cancelled == [0]


# --- speaking ----------------------------------------------------------------


async def trickle(*pieces: str, wait: float = 0.1) -> AsyncGenerator[str, None]:
    for piece in pieces:
        await anyio.sleep(wait)
        yield piece


def test_the_first_sentence_is_spoken_while_the_second_is_still_written() -> None:
    tts = ScriptedTTS(first_byte=0.05)
    starts: list[tuple[float, str, float | None]] = []

    async def speak(connection: CascadingConnection) -> None:
        async for chunk in connection.speak(trickle("Sure", ". ", "What ", "day", "?")):
            if chunk.text:
                starts.append((VirtualClock().now(), chunk.text, chunk.requested_at))

    serve(CascadingPipeline(tts=tts), speak)
    assert tts.texts == ["Sure.", "What day?"]
    assert [(at, text) for at, text, _ in starts] == [
        (pytest.approx(0.35), "Sure."),
        (pytest.approx(0.6), "What day?"),
    ]
    assert [requested for _, _, requested in starts] == pytest.approx([0.3, 0.55])


def test_word_times_count_from_the_start_of_everything_said() -> None:
    words: list[tuple[str, float, float]] = []

    async def speak(connection: CascadingConnection) -> None:
        async for chunk in connection.speak("One two. Three four."):
            words.extend((word.text, word.start, word.end) for word in chunk.words)

    serve(CascadingPipeline(tts=ScriptedTTS(emits_words=True)), speak)
    assert [word for word, _, _ in words] == ["One", "two.", "Three", "four."]
    assert [start for _, start, _ in words] == pytest.approx([0.0, 0.2, 0.4, 0.6])
    assert words[-1][2] == pytest.approx(0.8)


def test_a_voice_that_streams_text_gets_it_as_it_comes() -> None:
    tts = ScriptedTTS(first_byte=0.1, streams_text=True, emits_words=True)
    chunks: list[tuple[float, str, float | None]] = []

    async def speak(connection: CascadingConnection) -> None:
        async for chunk in connection.speak(trickle("One ", "two ", "three")):
            chunks.extend((VirtualClock().now(), word.text, chunk.requested_at) for word in chunk.words)

    serve(CascadingPipeline(tts=tts), speak)
    assert [word for _, word, _ in chunks] == ["One", "two", "three"]
    assert [at for at, _, _ in chunks] == pytest.approx([0.2, 0.3, 0.4])
    assert [requested for _, _, requested in chunks] == [pytest.approx(0.1), None, None]
    assert tts.texts == ["One two three"]


@pytest.mark.parametrize("streams_text", [False, True])
def test_speech_is_tried_again_before_its_first_audio(streams_text: bool) -> None:
    tts = ScriptedTTS(
        first_byte=0.0, streams_text=streams_text, faults={0: TTSFault("before", LOST), 1: TTSFault("before", LOST)}
    )
    seconds: list[float] = []

    async def speak(connection: CascadingConnection) -> None:
        async for chunk in connection.speak(trickle("One ", "two.", wait=0.0)):
            seconds.append(chunk.frame.duration)

    serve(CascadingPipeline(tts=tts), speak)
    assert sum(seconds) == pytest.approx(0.4)
    assert tts.requested_at == pytest.approx([0.0, 0.1, 2.1])
    assert tts.texts[-1] == "One two."


@pytest.mark.parametrize(("index", "when"), [(0, "middle"), (1, "before")])
def test_speech_is_not_tried_again_once_something_was_spoken(index: int, when: Any) -> None:
    tts = ScriptedTTS(faults={index: TTSFault(when, LOST)})

    async def speak(connection: CascadingConnection) -> None:
        async for _ in connection.speak("One two. Three four."):
            pass

    with pytest.raises(ExceptionGroup) as caught:
        serve(CascadingPipeline(tts=tts), speak)
    assert caught.group_contains(ProviderConnectionError)
    assert len(tts.texts) == index + 1


def test_closing_a_speech_stops_the_synthesis() -> None:
    tts = ScriptedTTS()

    async def speak(connection: CascadingConnection) -> None:
        async with aclosing(connection.speak("One two. Three four.")) as chunks:
            assert (await anext(chunks)).text == "One two."

    serve(CascadingPipeline(tts=tts), speak)
    assert tts.texts == ["One two."]
    assert tts.cancelled == [0]
