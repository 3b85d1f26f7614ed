"""Background audio of a session: its times, its independence of the call, bad files, and the close."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import anyio
import anyio.to_thread
import numpy as np
import numpy.typing as npt
import pytest

from vivavoce.agents import Agent, AgentSession, BackgroundAudioConfig, RoomOptions, SessionOptions
from vivavoce.agents.events import ErrorOccurred, SpeechOut
from vivavoce.agents.testing import ScriptedLLM, ScriptedTTS, SessionHarness, VirtualClock, run_virtual
from vivavoce.agents.transports.local import LocalTransport, VirtualSink
from vivavoce.pipelines.core.errors import (
    AudioFileError,
    ConfigurationError,
    SessionClosedError,
    SessionNotStartedError,
)
from vivavoce.pipelines.media.frame import AudioFrame
from vivavoce.pipelines.media.wav import write_wav

RATE = 24000
LEVEL = 10000
Background = str | Path | BackgroundAudioConfig | Sequence[BackgroundAudioConfig] | None
TEN_WORDS = "one two three four five six seven eight nine ten."


def flat(path: Path, level: int = LEVEL, seconds: float = 1.0) -> Path:
    """A file of one value, by which its gain can be read from the heard audio."""
    write_wav(path, AudioFrame(np.full(round(seconds * RATE), level, np.int16).tobytes(), RATE))
    return path


def steady(path: Path, **config: bool) -> BackgroundAudioConfig:
    return BackgroundAudioConfig(path, volume=0.5, duck_volume=0.5, **config)


def make_session(clock: VirtualClock, background: Background, agent: Agent | None = None) -> AgentSession[None]:
    agent = agent or Agent("x")
    pipeline = SessionHarness(agent).pipeline
    return AgentSession(agent, pipeline, background_audio=background, options=SessionOptions(clock=clock))


def heard(room: LocalTransport, clock: VirtualClock) -> npt.NDArray[np.int16]:
    """The audio that the caller has heard since time 0, silence included."""
    assert isinstance(room.sink, VirtualSink)
    whole = np.zeros(round(clock.now() * RATE) + 1, np.int16)
    for played in room.sink.frames():
        at = round(played.at * RATE)
        samples = played.frame.to_numpy()[: len(whole) - at]
        whole[at : at + len(samples)] = samples
    return whole


def level(samples: npt.NDArray[np.int16], start: float, end: float) -> set[int]:
    return set(samples[round(start * RATE) : round(end * RATE)].tolist())


def test_a_session_has_its_ambience_from_the_start_to_the_close_and_is_idle_by_it(tmp_path: Path) -> None:
    harness = SessionHarness(Agent("x"))

    async def scenario(harness: SessionHarness) -> None:
        harness.session.play_background_audio(steady(flat(tmp_path / "office.wav")))
        await harness.until(5.0)
        assert level(heard(harness.room, VirtualClock()), 0.2, 4.9) == {5000}

    harness.run(scenario)
    harness.expect_states("agent")
    assert harness.close_report is not None
    steps = {step.name: step for step in harness.close_report.steps}
    assert steps["background audio"].error == ""
    assert harness.close_report.seconds < 0.2


def test_the_constructor_s_background_sounds_from_the_start_and_its_thinking_sound_while_the_agent_thinks(
    tmp_path: Path,
) -> None:
    office, typing = flat(tmp_path / "office.wav", 1000), flat(tmp_path / "typing.wav", 20000)
    parts = SessionHarness(Agent("Help."), ScriptedLLM("Sure.", delay=0.5), tts=ScriptedTTS())

    async def main() -> None:
        clock = VirtualClock()
        room = LocalTransport(clock)
        session: AgentSession[None] = AgentSession(
            Agent("Help."),
            parts.pipeline,
            background_audio=[steady(office), steady(typing, thinking_only=True)],
            options=SessionOptions(clock=clock),
        )
        await session.start(room)
        await anyio.sleep(1.0)
        session.input.text("hello")
        await anyio.sleep(4.0)
        sound = heard(room, clock)
        await session.close()
        (turn,) = session.turns
        assert turn.outcome == "completed"
        assert turn.e2e_latency is not None
        spoke = 1.0 + turn.e2e_latency
        assert spoke > 1.5
        assert level(sound, 0.2, 1.0) == {500}
        assert level(sound, 1.2, spoke - 0.01) == {10500}  # both
        assert level(sound, 4.0, 4.9) == {500}  # the thinking audio has faded under the speech

    run_virtual(main())


def test_without_background_audio_nothing_is_mixed_and_nothing_waits(tmp_path: Path) -> None:
    async def scenario(harness: SessionHarness) -> None:
        await harness.session.say("hello")
        await harness.until(10.0)
        assert len(harness.played) == 1

    harness = SessionHarness(Agent("x")).run(scenario)
    assert harness.close_report is not None
    assert "background audio" not in [step.name for step in harness.close_report.steps]


def test_heard_text_is_exact_to_the_word_with_background_on_with_and_without_word_times(tmp_path: Path) -> None:
    path = flat(tmp_path / "office.wav")
    for emits_words in (True, False):
        harness = SessionHarness(Agent("x"), tts=ScriptedTTS(emits_words=emits_words))

        async def scenario(harness: SessionHarness) -> None:
            harness.session.play_background_audio(steady(path))
            await harness.until(1.0)
            speech = harness.session.say(TEN_WORDS)
            await harness.until(2.0)
            await harness.session.interrupt()
            await speech
            assert speech.outcome == "interrupted"
            assert speech.heard_text in ("one two three four", "one two three")
            assert speech.played_seconds == pytest.approx(0.8, abs=0.02)

        harness.run(scenario)


@pytest.mark.parametrize("is_on", [False, True])
def test_states_times_and_history_are_the_same_with_background_on(tmp_path: Path, is_on: bool) -> None:
    harness = SessionHarness(Agent("Help."), ScriptedLLM("Sure, one moment please.", delay=0.1))
    harness.caller.says("a table please", 0.5, 1.5)
    harness.caller.makes_noise(2.4, 3.2)

    async def scenario(harness: SessionHarness) -> None:
        if is_on:
            harness.session.play_background_audio(steady(flat(tmp_path / "office.wav")))
        await harness.until(10.0)

    harness.run(scenario)
    harness.expect_history(("user", "a table please"), ("assistant", "Sure, one moment please."))
    (turn,) = harness.session.turns
    assert turn.outcome == "completed"
    states = [(state, at) for who, state, at in harness.states if who == "agent" and 0 < at < 10]
    assert states == [("listening", 0.5), ("thinking", 1.9), ("speaking", 2.2), ("idle", states[-1][1])]
    assert states[-1][1] == pytest.approx(4.3, abs=1e-3)  # 0.8 s of speech, paused by the noise from 2.9 to 4.2


def test_another_file_takes_the_place_of_its_kind_and_a_stop_ends_all(tmp_path: Path) -> None:
    async def scenario(harness: SessionHarness) -> None:
        session = harness.session
        session.play_background_audio(steady(flat(tmp_path / "office.wav", 1000)))
        await harness.until(1.0)
        session.play_background_audio(steady(flat(tmp_path / "music.wav", 3000)))
        await harness.until(2.0)
        session.stop_background_audio()
        await harness.until(3.0)
        sound = heard(harness.room, VirtualClock())
        assert level(sound, 0.2, 1.0) == {500}
        assert level(sound, 1.2, 2.0) == {1500}
        assert level(sound, 2.2, 3.0) == {0}
        session.stop_background_audio()
        session.play_background_audio(str(flat(tmp_path / "quiet.wav", 1000)))
        await harness.until(4.0)
        assert level(heard(harness.room, VirtualClock()), 3.2, 3.9) == {300}

    SessionHarness(Agent("x")).run(scenario)


def test_what_is_not_enabled_does_not_sound_and_its_file_need_not_be_there(tmp_path: Path) -> None:
    async def scenario(harness: SessionHarness) -> None:
        harness.session.play_background_audio(BackgroundAudioConfig(tmp_path / "nowhere.wav", enabled=False))
        await harness.until(1.0)
        assert harness.played == []

    SessionHarness(Agent("x")).run(scenario)


def test_a_thread_may_begin_and_stop_it(tmp_path: Path) -> None:
    path = flat(tmp_path / "office.wav")

    async def scenario(harness: SessionHarness) -> None:
        with VirtualClock().hold():
            await anyio.to_thread.run_sync(harness.session.play_background_audio, path)
        await harness.until(1.0)
        assert level(heard(harness.room, VirtualClock()), 0.2, 0.9) == {3000}
        with VirtualClock().hold():
            await anyio.to_thread.run_sync(harness.session.stop_background_audio)
        await harness.until(2.0)
        assert level(heard(harness.room, VirtualClock()), 1.2, 1.9) == {0}

    SessionHarness(Agent("x")).run(scenario)


@pytest.mark.parametrize(
    "source", ["nowhere.wav", BackgroundAudioConfig("nowhere.wav"), [BackgroundAudioConfig("nowhere.wav")]]
)
def test_a_missing_file_is_refused_before_the_start_begins(
    source: str | BackgroundAudioConfig | Sequence[BackgroundAudioConfig],
) -> None:
    async def main() -> None:
        clock = VirtualClock()
        session = make_session(clock, source)
        with pytest.raises(ConfigurationError, match=r"nowhere\.wav"):
            await session.start(LocalTransport(clock))
        await session.close()

    run_virtual(main())


def test_a_missing_file_is_refused_where_it_is_asked_for_and_nothing_sounds_before_the_start_or_after_the_close(
    tmp_path: Path,
) -> None:
    async def scenario(harness: SessionHarness) -> None:
        with pytest.raises(ConfigurationError, match=r"nowhere\.wav"):
            harness.session.play_background_audio(tmp_path / "nowhere.wav")
        with pytest.raises(ConfigurationError, match="BackgroundAudioConfig or a path"):
            harness.session.play_background_audio(3)  # type: ignore[arg-type]
        await harness.session.close()
        with pytest.raises(SessionClosedError):
            harness.session.play_background_audio(flat(tmp_path / "office.wav"))

    SessionHarness(Agent("x")).run(scenario)

    async def unstarted() -> None:
        with pytest.raises(SessionNotStartedError):
            make_session(VirtualClock(), None).stop_background_audio()

    run_virtual(unstarted())


def test_a_broken_file_is_an_error_event_and_the_call_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "broken.wav"
    path.write_bytes(b"RIFF\0\0\0\0WAVEjunk")
    harness = SessionHarness(Agent("Help."), ScriptedLLM("Sure.", delay=0.1))
    harness.caller.says("hello", 1.0, 2.0)

    async def scenario(harness: SessionHarness) -> None:
        harness.session.play_background_audio(path)
        await harness.until(5.0)

    harness.run(scenario).expect_history(("user", "hello"), ("assistant", "Sure."))
    (error,) = harness.recording.of(ErrorOccurred)
    assert error.source == "background"
    assert isinstance(error.error, AudioFileError)


@pytest.mark.parametrize("is_held", [True, False])
def test_while_the_caller_is_away_it_is_held_unless_the_conversation_goes_on(tmp_path: Path, is_held: bool) -> None:
    path = flat(tmp_path / "office.wav")

    async def main() -> None:
        clock = VirtualClock()
        room = LocalTransport(clock)
        session = make_session(clock, steady(path))
        await session.start(room, room_options=RoomOptions(close_on_disconnect=is_held))
        await anyio.sleep(1.0)
        room.drop("caller")
        await anyio.sleep(2.0)
        room.join("caller")
        await anyio.sleep(1.0)
        sound = heard(room, clock)
        await session.close()
        assert level(sound, 0.2, 1.0) == {5000}
        assert level(sound, 1.2, 2.9) == ({0} if is_held else {5000})
        assert level(sound, 3.2, 3.9) == {5000}

    run_virtual(main())


def test_it_waits_until_the_caller_can_hear(tmp_path: Path) -> None:
    path = flat(tmp_path / "office.wav")

    async def main() -> None:
        clock = VirtualClock()
        room = LocalTransport(clock, is_audible=False)
        session = make_session(clock, path)
        await session.start(room)
        await anyio.sleep(1.0)
        room.set_audible()
        await anyio.sleep(1.0)
        sound = heard(room, clock)
        report = await session.close()
        assert not any(step.error for step in report.steps)
        assert level(sound, 0.0, 1.0) == {0}
        assert level(sound, 1.2, 1.9) == {3000}

    run_virtual(main())


def test_the_goodbye_is_spoken_over_it_and_the_close_fades_it_out(tmp_path: Path) -> None:
    path = flat(tmp_path / "office.wav")
    told: list[AudioFrame] = []

    class Host(Agent):
        async def on_exit(self) -> None:
            await self.session.say("bye")

    async def main() -> None:
        clock = VirtualClock()
        room = LocalTransport(clock)
        session = make_session(clock, path, Host("x"))
        session.on(SpeechOut, lambda event: told.append(event.frame))
        await session.start(room)
        await anyio.sleep(1.0)
        report = await session.close()
        await anyio.sleep(1.0)
        sound = heard(room, clock).astype(int)
        assert session.turns[0].outcome == "completed"
        assert not any(step.error for step in report.steps)
        assert sound[-RATE // 2 :].tolist() == [0] * (RATE // 2)
        last = int(np.flatnonzero(sound)[-1])
        tail = sound[last - round(0.04 * RATE) : last + 1]
        assert (np.diff(tail) <= 0).all()
        assert tail[-1] < 10
        assert told

    run_virtual(main())


def test_two_sessions_with_the_same_settings_have_nothing_in_common(tmp_path: Path) -> None:
    config = BackgroundAudioConfig(flat(tmp_path / "office.wav"), volume=0.5, duck_volume=0.5)

    async def main() -> None:
        clock = VirtualClock()
        rooms = [LocalTransport(clock) for _ in range(2)]
        sessions = [make_session(clock, config) for _ in rooms]
        for session, room in zip(sessions, rooms, strict=True):
            await session.start(room)
        await anyio.sleep(1.0)
        sessions[0].stop_background_audio()
        await anyio.sleep(1.0)
        first, second = (heard(room, clock) for room in rooms)
        for session in sessions:
            await session.close()
        assert level(first, 0.2, 1.0) == level(second, 0.2, 1.9) == {5000}
        assert level(first, 1.2, 1.9) == {0}

    run_virtual(main())


@pytest.mark.parametrize("wrong", [{"volume": 1.5}, {"volume": -0.1}, {"duck_volume": 2.0}, {"fade": -0.1}])
def test_settings_check_themselves(wrong: dict[str, float]) -> None:
    with pytest.raises(ConfigurationError, match=r"need"):
        BackgroundAudioConfig("office.wav", **wrong)  # type: ignore[arg-type]
