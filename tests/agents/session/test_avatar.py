"""A session whose audio an avatar plays: positions, interruptions and ends come from the avatar's reports."""

from __future__ import annotations

from collections.abc import Callable

import anyio
import pytest

from kit.avatar import RATE, AvatarCall, avatar_call
from vivavoce.agents import Agent, AgentSession, RoomOptions, SessionOptions
from vivavoce.agents.events import AgentStateChanged, ErrorOccurred, FalseInterruption
from vivavoce.agents.testing import ScriptedLLM, ScriptedRealtimeModel, SessionHarness, VirtualClock, run_virtual
from vivavoce.agents.transports import AvatarOptions
from vivavoce.agents.transports.livekit.avatar_sink import AvatarSink
from vivavoce.agents.transports.local import LocalTransport
from vivavoce.agents.transports.text import TextTransport
from vivavoce.pipelines import RealtimePipeline
from vivavoce.pipelines.core.errors import AvatarError, CapabilityError
from vivavoce.pipelines.io import Transport
from vivavoce.pipelines.media.frame import AudioFrame

LONG = "one two three four five six seven eight nine ten"
"""Two seconds of the scripted voices."""

VOICE = 0.2
"""Seconds until the scripted voice has made its first audio."""


def cascading(*answers: str) -> SessionHarness:
    return SessionHarness(Agent("Help."), ScriptedLLM(*answers))


def test_speech_begins_and_ends_when_the_avatar_reports_it() -> None:
    async def scenario(call: AvatarCall) -> None:
        said = call.session.say(LONG)
        await said
        assert said.heard_text == LONG
        # 0.03 s for each of `open`, audio and the report; 0.2 s until it plays; two seconds of speech; 0.03 s.
        assert call.clock.now() == pytest.approx(VOICE + 0.03 + 0.03 + 0.2 + 2.0 + 0.03, abs=0.05)
        speaking = [event.at for event in call.recording.of(AgentStateChanged) if event.state == "speaking"]
        assert speaking == pytest.approx([VOICE + 0.29], abs=0.03)

    call = avatar_call(cascading(), scenario)
    assert call.avatar.positions == [(2.0, False)]


@pytest.mark.parametrize("delay", [0.01, 0.1, 0.25])
def test_heard_words_are_cut_at_the_reported_position(delay: float) -> None:
    async def scenario(call: AvatarCall) -> None:
        said = call.session.say(LONG)
        await call.until(1.3)
        await call.session.interrupt()
        await said
        (position, interrupted) = call.avatar.positions[0]
        assert interrupted
        assert said.played_seconds == pytest.approx(position, abs=0.0001)
        assert said.heard_text == " ".join(LONG.split()[: int(position / 0.2 + 1e-6)])
        message = call.session.history.messages("assistant")[0]
        assert (message.content, message.interrupted) == (said.heard_text, True)
        again = call.session.say("Well.")
        await again
        assert again.heard_text == "Well."

    avatar_call(cascading(), scenario, delay=delay)


def test_an_avatar_that_does_not_report_where_it_stopped_is_estimated_within_a_second() -> None:
    async def scenario(call: AvatarCall) -> None:
        call.avatar.reports_end = False
        said = call.session.say(LONG)
        await call.until(1.3)
        await call.session.interrupt()
        await said
        assert call.clock.now() == pytest.approx(2.3, abs=0.05)
        assert said.played_seconds == pytest.approx(1.3 - VOICE - 0.29, abs=0.1)

    avatar_call(cascading(), scenario)


def test_speech_that_was_cut_before_the_avatar_began_was_not_heard() -> None:
    async def scenario(call: AvatarCall) -> None:
        said = call.session.say(LONG)
        await call.until(VOICE + 0.15)
        await call.session.interrupt()
        await said
        assert (said.heard_text, said.played_seconds) == ("", 0.0)
        assert not call.session.history.messages("assistant")

    avatar_call(cascading(), scenario)


def test_an_avatar_that_never_reports_its_start_is_probed_and_counted_by_the_clock() -> None:
    async def scenario(call: AvatarCall) -> None:
        call.avatar.reports_start = False
        said = call.session.say(LONG)
        await said
        assert said.heard_text == LONG
        assert call.clock.now() == pytest.approx(VOICE + 2.3, abs=0.1)  # without a gap

    call = avatar_call(cascading(), scenario)
    assert "probe" in call.avatar.commands


def test_an_end_that_is_never_reported_ends_the_speech_all_the_same() -> None:
    async def scenario(call: AvatarCall) -> None:
        call.avatar.reports_end = False
        said = call.session.say(LONG)
        await said
        assert said.heard_text == LONG
        assert call.clock.now() == pytest.approx(VOICE + 2.3 + 2.0, abs=0.1)

    call = avatar_call(cascading(), scenario)
    assert call.avatar.commands[-1] == "probe"


def test_a_false_interruption_pauses_the_avatar_and_speech_goes_on_where_it_stopped() -> None:
    harness = cascading()
    harness.caller.makes_noise(1.0, 1.8)

    async def scenario(call: AvatarCall) -> None:
        said = call.session.say(LONG)
        await said
        assert (said.outcome, said.heard_text) == ("completed", LONG)

    call = avatar_call(harness, scenario, delay=0.1)
    assert len(call.recording.of(FalseInterruption)) == 1
    (cut, _), (rest, _) = call.avatar.positions
    assert cut + rest == pytest.approx(2.0, abs=0.001)


def test_words_cut_the_avatar_and_the_answer_follows() -> None:
    harness = cascading("Yes.")
    harness.caller.says("stop it please", 1.0, 2.0)

    async def scenario(call: AvatarCall) -> None:
        said = call.session.say(LONG)
        await said
        assert said.outcome == "interrupted"
        await anyio.sleep(5.0)
        assert said.played_seconds == pytest.approx(call.avatar.positions[0][0], abs=0.0001)

    call = avatar_call(harness, scenario, delay=0.1)
    messages = [(message.role, message.content) for message in call.session.history.messages()]
    assert messages[0][0] == "assistant"
    assert messages[1:] == [("user", "stop it please"), ("assistant", "Yes.")]


def test_a_realtime_model_is_cut_at_the_position_that_the_avatar_reports() -> None:
    model = ScriptedRealtimeModel([0.3, LONG])
    harness = SessionHarness(Agent("Help."), model=model, pipeline=RealtimePipeline(model))

    async def scenario(call: AvatarCall) -> None:
        said = call.session.reply("Count.")
        await call.until(1.8)
        await call.session.interrupt()
        await said
        assert said.outcome == "interrupted"

    call = avatar_call(harness, scenario, delay=0.1)
    (position, interrupted) = call.avatar.positions[0]
    assert interrupted
    [(_, seconds, text)] = model.connections[0].record.truncations
    assert seconds == pytest.approx(position, abs=0.0001)
    assert call.session.history.messages("assistant")[0].content == text


def test_background_audio_is_refused_with_an_avatar() -> None:
    async def scenario(call: AvatarCall) -> None:
        with pytest.raises(CapabilityError, match="background audio"):
            call.session.play_background_audio("any.wav")

    avatar_call(cascading(), scenario)


def test_a_late_report_of_a_speech_that_counts_as_played_does_not_end_the_next_one() -> None:
    async def main() -> None:
        clock = VirtualClock()
        sink, second = AvatarSink(clock, sample_rate=RATE, lead=1.0), AudioFrame(bytes(2 * RATE), RATE)
        sink.write(second)
        sink.flush()
        sink.started()
        await anyio.sleep(3.2)  # the report of the end is late
        assert sink.is_idle
        sink.write(second)
        sink.flush()
        sink.started()
        await anyio.sleep(0.2)
        sink.finished(1.0, interrupted=False)
        assert sink.queued() > RATE // 2
        await anyio.sleep(0.9)
        sink.finished(1.0, interrupted=False)
        assert sink.is_idle

    run_virtual(main())


def test_a_report_that_never_comes_does_not_hold_up_the_end_of_the_next_speech() -> None:
    async def main() -> None:
        clock = VirtualClock()
        sink, second = AvatarSink(clock, sample_rate=RATE, lead=1.0), AudioFrame(bytes(2 * RATE), RATE)
        for is_reported in (False, True, True):
            sink.write(second)
            sink.flush()
            sink.started()
            await anyio.sleep(1.1 if is_reported else 3.2)
            if is_reported:
                sink.finished(1.0, interrupted=False)
            assert sink.is_idle

    run_virtual(main())


REQUIRED = RoomOptions(avatar=AvatarOptions(identity="face", is_required=True))


@pytest.mark.parametrize("make", [LocalTransport, lambda _: TextTransport()])
def test_a_required_avatar_is_refused_at_the_start_where_no_avatar_plays_the_audio(
    make: Callable[[VirtualClock], Transport],
) -> None:
    async def main() -> None:
        clock, harness = VirtualClock(), cascading("Hello.")
        async with AgentSession[None](harness.agent, harness.pipeline, options=SessionOptions(clock=clock)) as session:
            room = make(clock)
            with pytest.raises(
                CapabilityError, match="Transport lacks .*'face' is required.*start the session in a LiveKit room"
            ):
                await session.start(room, room_options=REQUIRED)
            await session.start(room)  # as if the first one had not been tried
            assert session.agent_state == "idle"

    run_virtual(main())


@pytest.mark.parametrize("make", [LocalTransport, lambda _: TextTransport()])
def test_an_avatar_that_is_not_required_is_an_error_event_where_no_avatar_plays_the_audio(
    make: Callable[[VirtualClock], Transport],
) -> None:
    async def main() -> None:
        clock, harness = VirtualClock(), cascading("Hello.")
        errors: list[ErrorOccurred] = []
        async with AgentSession[None](harness.agent, harness.pipeline, options=SessionOptions(clock=clock)) as session:
            session.on(ErrorOccurred, errors.append)
            await session.start(make(clock), room_options=RoomOptions(avatar=AvatarOptions(identity="face")))
            await session.say("Hello.")
        (event,) = errors
        assert (event.source, event.is_recovered) == ("avatar", True)
        assert isinstance(event.error, AvatarError)
        assert event.error.outcome == "own_audio"
        assert "'face' cannot come" in str(event.error)
        assert "start the session in a LiveKit room" in str(event.error)

    run_virtual(main())


def test_a_required_avatar_may_play_by_a_transport_of_ones_own() -> None:
    async def main() -> None:
        clock, harness = VirtualClock(), cascading("Hello.")
        room = LocalTransport(clock, sink=AvatarSink(clock, sample_rate=RATE, lead=0.1))
        async with AgentSession[None](harness.agent, harness.pipeline, options=SessionOptions(clock=clock)) as session:
            await session.start(room, room_options=REQUIRED)

    run_virtual(main())
