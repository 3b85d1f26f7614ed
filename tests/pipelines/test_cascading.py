"""CascadingPipeline: its capabilities, its reports about the caller, and its delays, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import anyio
import anyio.lowlevel
import pytest

from kit.pipeline import Judge, Muter
from vivavoce.pipelines import CascadingPipeline
from vivavoce.pipelines.cascading import CascadingConnection
from vivavoce.pipelines.core.errors import (
    CapabilityError,
    ConfigurationError,
    ProviderConnectionError,
    ProviderStatusError,
)
from vivavoce.pipelines.core.retry import RetryOptions
from vivavoce.pipelines.events import (
    PipelineEvent,
    UserFinal,
    UserInterim,
    UserSpeechEnded,
    UserSpeechStarted,
    UserTurnEnded,
    UserVoicePaused,
    UserVoiceResumed,
)
from vivavoce.pipelines.llm.base import GenerateRequest
from vivavoce.pipelines.llm.chat_context import ChatContext
from vivavoce.pipelines.media.frame import AudioFrame
from vivavoce.pipelines.pipeline import PipelineContext
from vivavoce.pipelines.stt.base import STTCapabilities
from vivavoce.pipelines.testing import (
    ScriptedCaller,
    ScriptedLLM,
    ScriptedSTT,
    ScriptedTTS,
    ScriptedVAD,
    VirtualClock,
)
from vivavoce.pipelines.vad.base import VADOptions

REQUEST = GenerateRequest(context=ChatContext())
LOST = ProviderConnectionError("lost", provider="scripted")
REFUSED = ProviderStatusError("no such key", provider="scripted", status=401)

Serve = Callable[..., list[tuple[float, PipelineEvent]]]


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


def test_without_a_voice_a_model_answers_in_text() -> None:
    can = CascadingPipeline(stt=ScriptedSTT(), llm=ScriptedLLM()).capabilities
    assert (can.can_listen, can.can_say, can.can_reply, can.takes_flow) == (True, True, True, True)
    assert not can.speaks
    can = CascadingPipeline(llm=ScriptedLLM()).capabilities
    assert (can.can_listen, can.can_say, can.speaks) == (False, True, False)


def test_without_voice_and_model_it_only_listens() -> None:
    can = CascadingPipeline(stt=ScriptedSTT()).capabilities
    assert (can.can_listen, can.can_say, can.can_reply, can.takes_flow) == (True, False, False, False)


def test_the_voice_connects_ahead_of_the_first_speech(serve: Serve) -> None:
    tts = ScriptedTTS()

    async def act(_: CascadingConnection) -> None:
        assert (tts.warmed, tts.texts) == (1, [])

    serve(CascadingPipeline(tts=tts), act)


def test_a_recogniser_that_needs_flush_is_refused_without_a_vad() -> None:
    stt = ScriptedSTT(capabilities=STTCapabilities(needs_flush=True))
    with pytest.raises(CapabilityError, match="give CascadingPipeline a vad"):
        CascadingPipeline(stt=stt)
    CascadingPipeline(stt=stt, vad=ScriptedVAD())


def test_a_turn_detector_that_needs_text_is_refused_without_an_stt() -> None:
    with pytest.raises(CapabilityError, match="give CascadingPipeline an stt"):
        CascadingPipeline(tts=ScriptedTTS(), turn_detector=Judge())


def test_an_empty_pipeline_and_a_wrong_component_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="an stt, an llm or a tts"):
        CascadingPipeline(vad=ScriptedVAD())
    with pytest.raises(ConfigurationError, match=r"stt must be an instance of STT.*call the class"):
        CascadingPipeline(stt=ScriptedSTT)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="tts must be an instance of TTS"):
        CascadingPipeline(tts=ScriptedVAD())  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match=r"got 'deepgram/nova-3'; a name is not looked up: make the component"):
        CascadingPipeline(stt="deepgram/nova-3")  # type: ignore[arg-type]


def test_options_check_themselves() -> None:
    with pytest.raises(ValueError, match="waits"):
        RetryOptions(waits=(-1.0,))


def test_a_pipeline_serves_one_session_at_a_time(serve: Serve) -> None:
    pipeline = CascadingPipeline(stt=ScriptedSTT(), tts=ScriptedTTS())

    async def open_again(_: CascadingConnection) -> None:
        with pytest.raises(ConfigurationError, match="attached already"):
            pipeline.open(PipelineContext(clock=VirtualClock(), emit=lambda _: None))

    serve(pipeline, open_again)
    serve(pipeline, open_again)


def test_what_is_missing_is_named_when_it_is_called(serve: Serve) -> None:
    async def ask(connection: CascadingConnection) -> None:
        with pytest.raises(CapabilityError, match="give CascadingPipeline an llm"):
            connection.generate(REQUEST)
        with pytest.raises(CapabilityError, match="give CascadingPipeline a tts"):
            connection.speak("hello")

    serve(CascadingPipeline(stt=ScriptedSTT()), ask)


def test_speech_is_told_with_its_true_times_and_its_transcript_follows(serve: Serve) -> None:
    stt = ScriptedSTT(["a table for two"], final_delay=0.25)
    events = serve(
        CascadingPipeline(stt=stt, vad=ScriptedVAD()),
        lambda connection: ScriptedCaller(connection.push_audio, [(0.5, 2.5)]).run(3.0),
    )
    (started_at, started), (paused_at, paused), (ended_at, ended), (final_at, final) = events
    assert isinstance(started, UserSpeechStarted)
    assert isinstance(ended, UserSpeechEnded)
    assert (started_at, started.at) == pytest.approx((0.56, 0.5))
    assert isinstance(paused, UserVoicePaused)
    assert (paused_at, paused.at) == pytest.approx((2.52, 2.5))
    assert (ended_at, ended.at) == pytest.approx((2.7, 2.5))
    assert final_at == pytest.approx(2.95)
    assert final == UserFinal(text="a table for two")
    assert stt.streams[0].speech_starts == pytest.approx([0.5])
    assert stt.streams[0].flushes == pytest.approx([2.7])
    assert stt.streams[0].pushed_seconds == pytest.approx(3.0)


def test_pauses_of_the_voice_within_speech_are_told_with_their_true_times(serve: Serve) -> None:
    events = serve(
        CascadingPipeline(stt=ScriptedSTT([""]), vad=ScriptedVAD()),
        lambda connection: ScriptedCaller(connection.push_audio, [(0.5, 1.0), (1.1, 1.4)]).run(1.5),
    )
    edges = [
        (type(event), at, event.at) for at, event in events if isinstance(event, UserVoicePaused | UserVoiceResumed)
    ]
    assert [kind for kind, _, _ in edges] == [UserVoicePaused, UserVoiceResumed, UserVoicePaused]
    assert [times for _, *times in edges] == [
        pytest.approx([1.02, 1.0]),
        pytest.approx([1.12, 1.1]),
        pytest.approx([1.42, 1.4]),
    ]


@pytest.mark.parametrize(("reports_edges", "lag"), [(True, 0.0), (False, 0.3)])
def test_how_soon_silence_shows_is_read_before_opening(reports_edges: bool, lag: float) -> None:
    vad = ScriptedVAD(VADOptions(min_silence=0.3), reports_edges=reports_edges)
    assert CascadingPipeline(stt=ScriptedSTT(), vad=vad).capabilities.voice_lag == lag
    assert CascadingPipeline(stt=ScriptedSTT()).capabilities.voice_lag == 0.0


def test_whether_words_come_while_the_caller_speaks_is_read_before_opening() -> None:
    late = ScriptedSTT(capabilities=STTCapabilities(emits_interims=False))
    assert CascadingPipeline(stt=ScriptedSTT()).capabilities.emits_interims
    assert not CascadingPipeline(stt=late).capabilities.emits_interims


def test_interims_finals_and_ends_of_turns_pass(serve: Serve) -> None:
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


def test_each_component_gets_its_own_rate_and_the_denoiser_comes_first(serve: Serve) -> None:
    stt, vad, muter = ScriptedSTT(["never"]), ScriptedVAD(sample_rate=8000), Muter()
    judge = Judge(needs_audio=True)
    pipeline = CascadingPipeline(stt=stt, vad=vad, denoise=muter, turn_detector=judge)
    events = serve(
        pipeline,
        lambda connection: ScriptedCaller(connection.push_audio, [(0.2, 1.0)], sample_rate=44100).run(2.0),
        input_rate=44100,
    )
    assert events == []  # the VAD heard the denoiser's silence
    assert stt.streams[0].pushed_seconds == pytest.approx(2.0, abs=0.05)  # the resamplers hold some back
    assert judge.pushed_seconds == pytest.approx(2.0, abs=0.05)
    assert muter.is_closed
    assert judge.is_closed
    assert vad.streams[0].is_closed


def test_the_delay_of_the_denoiser_is_taken_off_the_times(serve: Serve) -> None:
    vad = ScriptedVAD()

    async def talk(connection: CascadingConnection) -> None:
        await anyio.sleep(1.0)
        for _ in range(10):  # the resamplers around the denoiser hold some audio back
            connection.push_audio(AudioFrame.silence(0.02, 16000))
        vad.start(ago=0.1)
        connection.push_audio(AudioFrame.silence(0.02, 16000))

    ((came_at, event),) = serve(CascadingPipeline(stt=ScriptedSTT(), vad=vad, denoise=Muter()), talk)
    assert came_at == 1.0
    assert isinstance(event, UserSpeechStarted)
    assert 1.0 - 0.11 - 0.06 < event.at < 1.0 - 0.11  # the audio that the resamplers hold back counts too


def test_the_end_of_a_turn_flushes_what_is_open_and_only_that(serve: Serve) -> None:
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


def test_a_session_costs_one_task_and_a_second_one_for_a_turn_detector(serve: Serve) -> None:
    async def count(_: CascadingConnection) -> None:
        counts.append(len(asyncio.all_tasks()))

    counts: list[int] = []
    serve(CascadingPipeline(stt=ScriptedSTT(), tts=ScriptedTTS(), vad=ScriptedVAD()), count)
    serve(CascadingPipeline(tts=ScriptedTTS()), count)
    serve(CascadingPipeline(stt=ScriptedSTT(), tts=ScriptedTTS(), turn_detector=Judge()), count)
    assert counts == [2, 2, 3]  # the test's own task is one of them


def test_audio_that_stops_in_mid_speech_settles_what_was_heard_and_the_next_speech_is_new(serve: Serve) -> None:
    stt = ScriptedSTT()

    async def mute_in_speech(connection: CascadingConnection) -> None:
        await ScriptedCaller(connection.push_audio, [(0.1, 1.0)]).run(0.6)
        connection.audio_stopped()
        connection.audio_stopped()
        await anyio.sleep(2.0)
        await ScriptedCaller(connection.push_audio, [(0.1, 0.5)]).run(1.0)

    events = serve(CascadingPipeline(stt=stt, vad=ScriptedVAD()), mute_in_speech)
    assert stt.streams[0].flushes == pytest.approx([0.6, 3.3])
    kinds = [type(event) for _, event in events]
    assert kinds == [UserSpeechStarted, UserSpeechStarted, UserVoicePaused, UserSpeechEnded]


def test_capabilities_tell_how_long_a_verdict_may_take() -> None:
    with_one = CascadingPipeline(stt=ScriptedSTT(), turn_detector=Judge())
    assert with_one.capabilities.turn_detector_limit == 1.0
    assert CascadingPipeline(tts=ScriptedTTS()).capabilities.turn_detector_limit is None


@pytest.mark.parametrize("end", ["commit_audio", "clear_audio"])
def test_what_is_said_after_a_turn_ended_in_mid_speech_is_heard_by_recognisers_that_need_a_vad(
    serve: Serve, end: str
) -> None:
    stt = ScriptedSTT(["one two", "three"], capabilities=STTCapabilities(needs_flush=True))

    async def talk(connection: CascadingConnection) -> None:
        await ScriptedCaller(connection.push_audio, [(0.0, 1.0)]).run(1.0)
        getattr(connection, end)()
        await ScriptedCaller(connection.push_audio, [(0.0, 0.5)]).run(1.0)

    events = serve(CascadingPipeline(stt=stt, vad=ScriptedVAD()), talk)
    assert stt.streams[0].utterances == pytest.approx([0.94, 0.7], abs=0.05)
    finals = [event.text for _, event in events if isinstance(event, UserFinal)]
    assert finals == (["one two", "three"] if end == "commit_audio" else ["one two"])
