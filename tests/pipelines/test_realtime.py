"""RealtimePipeline over the scripted model: audio in, answers out, remote turns, lost connections, in virtual time."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any

import anyio
import pytest

from kit.pipeline import Muter
from vivavoce.pipelines import RealtimePipeline
from vivavoce.pipelines.core.errors import CapabilityError, ConfigurationError, ProviderConnectionError
from vivavoce.pipelines.events import (
    PipelineEvent,
    PipelineFailed,
    RemoteReplyStarted,
    UserAudioCommitted,
    UserFinal,
    UserInterim,
    UserSpeechEnded,
    UserSpeechStarted,
    UserVoicePaused,
)
from vivavoce.pipelines.llm.base import Done, GenerateRequest, TextDelta
from vivavoce.pipelines.llm.chat_context import ChatContext
from vivavoce.pipelines.media.frame import AudioFrame
from vivavoce.pipelines.pipeline import PipelineContext
from vivavoce.pipelines.realtime import RealtimeOptions, RealtimePipelineConnection
from vivavoce.pipelines.realtime_model.base import RealtimeCapabilities, RealtimeSetup
from vivavoce.pipelines.testing import (
    ScriptedCaller,
    ScriptedRealtimeConnection,
    ScriptedRealtimeModel,
    ScriptedSTT,
    ScriptedTTS,
    ScriptedVAD,
    VirtualClock,
)
from vivavoce.pipelines.testing.scripted_vad import SPEECH_LEVEL
from vivavoce.pipelines.tts.base import AudioChunk

REQUEST = GenerateRequest(context=ChatContext())
LOST = ProviderConnectionError("lost", provider="scripted")
LOCAL = RealtimeCapabilities(turn_detection=frozenset({"local"}))
REMOTE_BY_VAD = RealtimeOptions(turn_detection="remote")

Serve = Callable[..., list[tuple[float, PipelineEvent]]]


def seconds_of(items: list[object]) -> float:
    return sum(item.frame.duration for item in items if isinstance(item, AudioChunk))


def test_capabilities_are_the_models_completed_by_voice_and_vad() -> None:
    can = RealtimePipeline(ScriptedRealtimeModel()).capabilities
    assert (can.can_say, can.can_reply, can.generates_audio, can.takes_flow) == (True, True, True, False)
    assert (can.decides_turns, can.truncates, can.output_rate) == ("remote", True, 24000)

    can = RealtimePipeline(ScriptedRealtimeModel(capabilities=LOCAL), tts=ScriptedTTS(), vad=ScriptedVAD()).capabilities
    assert (can.can_say, can.decides_turns, can.vad_silence) == (True, "local", 0.2)
    assert [kind for kind, _, _ in can.components] == ["realtime_model", "tts", "vad"]


def test_wrong_combinations_are_refused_with_a_remedy() -> None:
    text_only = RealtimeCapabilities(generates_audio=False, generates_text=True)
    with pytest.raises(CapabilityError, match="give RealtimePipeline a tts"):
        RealtimePipeline(ScriptedRealtimeModel(capabilities=text_only))
    with pytest.raises(CapabilityError, match="give RealtimePipeline a vad"):
        RealtimePipeline(ScriptedRealtimeModel(capabilities=LOCAL))
    with pytest.raises(ConfigurationError, match="model must be an instance of RealtimeModel"):
        RealtimePipeline(ScriptedTTS())  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="tts must be an instance of TTS"):
        RealtimePipeline(ScriptedRealtimeModel(), tts=ScriptedVAD())  # type: ignore[arg-type]


def test_a_pipeline_serves_one_session_at_a_time(serve: Serve) -> None:
    pipeline = RealtimePipeline(ScriptedRealtimeModel())

    async def open_again(_: RealtimePipelineConnection) -> None:
        with pytest.raises(ConfigurationError, match="attached already"):
            pipeline.open(PipelineContext(clock=VirtualClock(), emit=lambda _: None))

    serve(pipeline, open_again)
    serve(pipeline, open_again)


def test_a_local_vad_tells_of_speech_and_the_turn_is_committed(serve: Serve) -> None:
    model = ScriptedRealtimeModel("Sure thing.", delay=0.1, capabilities=LOCAL)
    taken: list[object] = []

    async def talk(connection: RealtimePipelineConnection) -> None:
        await ScriptedCaller(connection.push_audio, [(0.5, 2.5)]).run(2.9)
        connection.commit_audio()
        async with aclosing(connection.generate(REQUEST)) as items:
            async for item in items:
                taken.append(item)
        assert VirtualClock().now() == pytest.approx(3.0)

    events = serve(RealtimePipeline(model, vad=ScriptedVAD()), talk)
    kinds = [type(event) for _, event in events]
    assert kinds == [UserSpeechStarted, UserVoicePaused, UserSpeechEnded, UserAudioCommitted]
    assert [at for at, _ in events] == pytest.approx([0.56, 2.52, 2.7, 2.9])
    assert taken[0] == TextDelta("Sure thing.")
    assert taken[-1] == Done()
    assert seconds_of(taken) == pytest.approx(0.4)
    record = model.connections[0].record
    assert record.pushed_seconds == pytest.approx(2.84, abs=0.02)  # from 0.5 before the report on
    assert record.commits == pytest.approx([2.9])
    assert record.updates == [("Be brief.", ())]


class Listener(ScriptedRealtimeModel):
    """Keeps the audio that its connections receive."""

    def __init__(self, capabilities: RealtimeCapabilities | None = None) -> None:
        super().__init__(capabilities=capabilities)
        self.heard: list[AudioFrame] = []

    def connect(self, setup: RealtimeSetup) -> ScriptedRealtimeConnection:
        heard = self.heard

        class Connection(ScriptedRealtimeConnection):
            def push(self, frame: AudioFrame) -> None:
                super().push(frame)
                heard.append(frame)

        return Connection(self, setup)

    @property
    def loud_seconds(self) -> float:
        return sum(frame.duration for frame in self.heard if frame.to_numpy().max() >= SPEECH_LEVEL)


def test_model_vad_and_recogniser_hear_the_denoised_caller(serve: Serve) -> None:
    model, stt, vad, muter = Listener(), ScriptedSTT(["never"]), ScriptedVAD(sample_rate=8000), Muter(until=1.5)
    pipeline = RealtimePipeline(model, stt=stt, vad=vad, denoise=muter, options=REMOTE_BY_VAD)
    events = serve(
        pipeline,
        lambda connection: ScriptedCaller(connection.push_audio, [(0.2, 1.0)], sample_rate=44100).run(2.0),
        input_rate=44100,
    )
    assert events == []
    assert {frame.sample_rate for frame in model.heard} == {24000}
    assert model.loud_seconds == 0.0
    assert model.connections[0].record.pushed_seconds == pytest.approx(2.0, abs=0.05)
    assert stt.streams[0].pushed_seconds == pytest.approx(2.0, abs=0.05)
    assert muter.is_closed


def test_with_local_turn_detection_too_a_model_hears_the_denoised_caller(serve: Serve) -> None:
    model = Listener(LOCAL)
    muter = Muter(sample_rate=16000, delay=0.0, until=1.01)
    pipeline = RealtimePipeline(model, vad=ScriptedVAD(), denoise=muter)
    events = serve(pipeline, lambda connection: ScriptedCaller(connection.push_audio, [(0.2, 1.4)]).run(2.0))
    started, ended = (event for _, event in events if isinstance(event, UserSpeechStarted | UserSpeechEnded))
    assert isinstance(started, UserSpeechStarted)
    assert isinstance(ended, UserSpeechEnded)
    assert (started.at, ended.at) == pytest.approx((1.0, 1.4))
    assert model.loud_seconds == pytest.approx(0.4, abs=0.05)


def test_the_delay_of_the_denoiser_is_taken_off_the_servers_times(serve: Serve) -> None:
    model = ScriptedRealtimeModel()

    async def talk(_: RealtimePipelineConnection) -> None:
        await anyio.sleep(1.0)
        model.speech_started(ago=0.25)
        await anyio.sleep(0.1)

    events = serve(RealtimePipeline(model, denoise=Muter()), talk)
    assert events == [(1.0, UserSpeechStarted(at=1.0 - 0.26))]


def test_capabilities_list_the_denoiser() -> None:
    can = RealtimePipeline(ScriptedRealtimeModel(), vad=ScriptedVAD(), denoise=Muter()).capabilities
    assert [kind for kind, _, _ in can.components] == ["realtime_model", "vad", "denoise"]
    with pytest.raises(ConfigurationError, match="denoise must be an instance of Denoiser"):
        RealtimePipeline(ScriptedRealtimeModel(), denoise=ScriptedVAD())  # type: ignore[arg-type]


def test_what_the_server_hears_becomes_events(serve: Serve) -> None:
    model = ScriptedRealtimeModel()

    async def talk(_: RealtimePipelineConnection) -> None:
        await anyio.sleep(1.0)
        model.speech_started(ago=0.25)
        model.speech_ended()
        model.transcript("a ta", is_final=False)
        model.transcript("a table", item_id="item_7")
        await anyio.sleep(0.1)

    events = serve(RealtimePipeline(model), talk)
    assert [event for _, event in events] == [
        UserSpeechStarted(0.75),
        UserSpeechEnded(1.0),
        UserInterim(text="a ta", item_id="user_1"),
        UserFinal(text="a table", item_id="user_2"),
    ]


def test_with_a_local_vad_the_servers_opinion_of_speech_is_ignored(serve: Serve) -> None:
    model = ScriptedRealtimeModel()

    async def talk(_: RealtimePipelineConnection) -> None:
        model.speech_started()
        model.speech_ended()
        await anyio.sleep(0.1)

    assert serve(RealtimePipeline(model, vad=ScriptedVAD(), options=REMOTE_BY_VAD), talk) == []


def test_an_answer_that_the_server_began_is_accepted_or_refused(serve: Serve) -> None:
    model = ScriptedRealtimeModel()
    taken: list[object] = []

    async def talk(connection: RealtimePipelineConnection) -> None:
        first, second = model.start_reply("Yes."), model.start_reply("No.")
        await anyio.sleep(0.1)
        async with aclosing(connection.accept(first)) as items:
            async for item in items:
                taken.append(item)
        connection.refuse(second)
        with pytest.raises(KeyError):
            connection.accept(second)

    events = serve(RealtimePipeline(model), talk)
    assert [event for _, event in events] == [RemoteReplyStarted("remote_1"), RemoteReplyStarted("remote_2")]
    assert (taken[0], taken[-1]) == (TextDelta("Yes."), Done())
    record = model.connections[0].record
    assert (record.accepted, record.refused) == (["remote_1"], ["remote_2"])


def test_truncation_update_and_clearing_reach_the_model(serve: Serve) -> None:
    model = ScriptedRealtimeModel("Sure thing.")

    async def act(connection: RealtimePipelineConnection) -> None:
        connection.truncate("item_1", 1.5, "Nothing that this connection made.")
        async with aclosing(connection.generate(REQUEST)) as items:
            async for _ in items:
                pass
        connection.truncate("answer_1", 1.5, "Sure")
        connection.update("Be long.", ())
        connection.clear_audio()

    serve(RealtimePipeline(model), act)
    record = model.connections[0].record
    assert record.truncations == [("answer_1", 1.5, "Sure")]
    assert record.updates[-1] == ("Be long.", ())
    assert len(record.clears) == 1


def test_a_model_that_takes_no_truncation_gets_none(serve: Serve) -> None:
    model = ScriptedRealtimeModel(capabilities=RealtimeCapabilities(truncates=False))

    async def act(connection: RealtimePipelineConnection) -> None:
        connection.truncate("item_1", 1.5, "Sure")

    serve(RealtimePipeline(model), act)
    assert model.connections[0].record.truncations == []


def test_ones_own_voice_speaks_at_the_models_rate(serve: Serve) -> None:
    tts = ScriptedTTS(sample_rate=16000)
    chunks: list[AudioChunk] = []

    async def speak(connection: RealtimePipelineConnection) -> None:
        assert tts.warmed == 1, "it connects ahead"
        async for chunk in connection.speak("Hello there."):
            chunks.append(chunk)

    serve(RealtimePipeline(ScriptedRealtimeModel(), tts=tts), speak)
    assert {chunk.frame.sample_rate for chunk in chunks} == {24000}
    assert seconds_of(list(chunks)) == pytest.approx(0.4, abs=0.001)
    assert chunks[0].text == "Hello there."


def test_without_a_voice_the_model_is_asked_to_say_the_whole_text(serve: Serve) -> None:
    model = ScriptedRealtimeModel()

    async def pieces() -> AsyncGenerator[str, None]:
        yield "Hello "
        yield "there."

    async def speak(connection: RealtimePipelineConnection) -> None:
        for text in ("Good bye.", pieces()):
            async with aclosing(connection.speak(text)) as chunks:
                assert seconds_of([chunk async for chunk in chunks]) == pytest.approx(0.4)

    serve(RealtimePipeline(model), speak)
    assert model.connections[0].record.said == ["Good bye.", "Hello there."]


def test_a_lost_connection_is_replaced_and_the_answer_tried_again(serve: Serve) -> None:
    model = ScriptedRealtimeModel("Sure.", open_delay=0.05)
    taken: list[object] = []

    async def talk(connection: RealtimePipelineConnection) -> None:
        model.transcript("hello")
        await anyio.sleep(1.0)
        connection.update("Be long.", ())
        model.fail()
        await anyio.sleep(0.01)
        async with aclosing(connection.generate(REQUEST)) as items:  # not connected at first
            async for item in items:
                taken.append(item)

    events = serve(RealtimePipeline(model), talk)
    failures = [event for _, event in events if isinstance(event, PipelineFailed)]
    assert [(failure.recovered, failure.component) for failure in failures] == [(True, "realtime_model")]
    assert taken[0] == TextDelta("Sure.")
    assert len(model.connections) == 2
    assert model.connections[0].is_closed
    assert model.connections[1].record.updates == [("Be long.", ())]


def test_a_connection_that_does_not_come_back_fails_and_stays_quiet(serve: Serve) -> None:
    model = ScriptedRealtimeModel("Sure.")

    async def talk(connection: RealtimePipelineConnection) -> None:
        model.fail_open(LOST, LOST, LOST)
        model.fail()
        await anyio.sleep(2.0)
        await ScriptedCaller(connection.push_audio, []).run(0.1)
        for call in (connection.commit_audio, connection.clear_audio):
            call()
        connection.refuse("remote_1")
        connection.truncate("item_1", 1.0, "")
        with pytest.raises(ProviderConnectionError, match="not connected"):
            await anext(connection.generate(REQUEST))

    events = serve(RealtimePipeline(model), talk)
    assert [event for _, event in events] == [PipelineFailed(LOST, False, "realtime_model")]


@pytest.mark.parametrize("bad", [{"turn_detection": "both"}, {"answers": "speech"}])
def test_options_that_mean_nothing_are_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=next(iter(bad))):
        RealtimeOptions(**bad)


def test_modes_that_do_not_fit_are_refused_with_a_remedy() -> None:
    model = ScriptedRealtimeModel()
    with pytest.raises(CapabilityError, match="leave out RealtimeOptions.answers"):
        RealtimePipeline(model, tts=ScriptedTTS(), options=RealtimeOptions(answers="text"))
    with pytest.raises(CapabilityError, match="give RealtimePipeline a vad"):
        RealtimePipeline(model, options=RealtimeOptions(turn_detection="local"))
    only_local = ScriptedRealtimeModel(capabilities=LOCAL)
    with pytest.raises(CapabilityError, match="set RealtimeOptions|give RealtimePipeline a vad"):
        RealtimePipeline(only_local)
