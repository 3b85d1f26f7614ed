"""LiveKitTransport in a real room: its output reaches another client, and that client's reaches the session."""

from __future__ import annotations

from typing import Any

import anyio
import numpy as np
import numpy.typing as npt
import pytest
from livekit import api, rtc

from kit.e2e.room_endpoint import RoomEndpoint
from kit.e2e.sdk_client import (
    PEER_RATE,
    Heard,
    agent_state,
    joined,
    level,
    loud,
    pcm,
    pitch,
    said,
    token,
    tone,
    transport_in,
    usual_level,
)
from kit.limits import LIMIT
from vivavoce.agents.dev_room import RoomProcess, RoomServerOptions
from vivavoce.agents.transports.livekit import LiveKitTransport
from vivavoce.pipelines.core.errors import RoomError
from vivavoce.pipelines.io import TranscriptSegment
from vivavoce.pipelines.media.frame import AudioFrame

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120)]


async def play(transport: LiveKitTransport, frames: list[AudioFrame]) -> None:
    """Write as playout does: never more than 40 ms ahead."""
    for frame in frames:
        ahead = (transport.sink.queued() + frame.samples) / frame.sample_rate
        await anyio.sleep(max(0.0, ahead - 0.04))
        transport.sink.write(frame)


@pytest.mark.both_servers
async def test_tones_cross_the_room_both_ways_with_pitch_and_level(
    room_server: RoomEndpoint, room_name: str, agent_room: rtc.Room
) -> None:
    heard, transport = Heard(), transport_in(agent_room)
    async with joined(room_server, room_name, "caller") as caller, anyio.create_task_group() as tasks:
        await tasks.start(transport.run, heard)
        audible = anyio.Event()
        transport.on_audible(audible.set)
        with anyio.fail_after(LIMIT):
            await audible.wait()
        tasks.start_soon(caller.speak, 880.0, 1.0)
        await play(transport, tone(440.0, 1.0, 24000))
        await caller.until(lambda: len(loud(caller.audio())) >= 0.8 * PEER_RATE)  # a busy machine loses packets
        await heard.until(lambda: len(loud(pcm(heard.frames))) >= 0.8 * 16000)
        await transport.aclose()

    assert {frame.sample_rate for frame in heard.frames} == {16000}
    assert {frame.samples for frame in heard.frames} == {320}
    sent = level(pcm(tone(440.0, 1.0, 24000)))
    at_caller, at_agent = loud(caller.audio())[4800:-4800], loud(pcm(heard.frames))[1600:-1600]
    assert pitch(at_caller, PEER_RATE) == pytest.approx(440.0, abs=3)
    assert pitch(at_agent, 16000) == pytest.approx(880.0, abs=3)
    assert usual_level(at_caller, PEER_RATE) == pytest.approx(sent, abs=1.5)
    assert usual_level(at_agent, 16000) == pytest.approx(sent, abs=1.5)


async def test_cleared_audio_is_dropped_and_counted(
    room_server: RoomEndpoint, room_name: str, agent_room: rtc.Room
) -> None:
    heard, transport = Heard(), transport_in(agent_room)
    async with joined(room_server, room_name, "caller") as caller, anyio.create_task_group() as tasks:
        await tasks.start(transport.run, heard)
        await caller.until(lambda: "agent" in caller.audio_from)
        await play(transport, tone(440.0, 0.5, 24000))
        transport.sink.write(tone(440.0, 0.1, 24000)[0])
        transport.sink.write(AudioFrame(pcm(tone(440.0, 5.0, 24000)[:20]).tobytes(), 24000))  # 0.4 s ahead
        queued, asked_at = transport.sink.queued(), anyio.current_time()
        dropped = transport.sink.clear()
        played = 24000 * (anyio.current_time() - asked_at + 0.01)
        await play(transport, tone(1000.0, 0.3, 24000))
        await caller.until(lambda: pitch_at_end(caller.audio()) == pytest.approx(1000.0, abs=60))
        await transport.aclose()

    assert queued - played <= dropped <= queued  # time passes between the two calls
    assert 0.2 * 24000 < dropped <= 0.5 * 24000
    low = loud(caller.audio())[: -int(0.3 * PEER_RATE)]
    assert len(low) <= 0.8 * PEER_RATE  # the 0.4 s never played; a busy machine stretches sound


def pitch_at_end(samples: npt.NDArray[np.int16]) -> float:
    tail = loud(samples)[-4800:]
    return pitch(tail, PEER_RATE) if len(tail) == 4800 else 0.0


@pytest.mark.both_servers
async def test_only_the_linked_participant_interrupts_by_a_remote_call(
    room_server: RoomEndpoint, room_name: str, agent_room: rtc.Room
) -> None:
    heard, transport = Heard(), transport_in(agent_room)
    async with (
        joined(room_server, room_name, "caller") as caller,
        anyio.create_task_group() as tasks,
    ):
        await tasks.start(transport.run, heard)
        await heard.until(lambda: "linked caller" in heard.log)
        call: dict[str, Any] = {"destination_identity": "agent", "method": "vivavoce.interrupt", "payload": ""}
        async with joined(room_server, room_name, "guest") as guest:
            with pytest.raises(rtc.RpcError, match="only the participant whom the agent talks to"):
                await guest.room.local_participant.perform_rpc(**call)
        assert "interrupt" not in heard.log
        await caller.room.local_participant.perform_rpc(**call)
        await heard.until(lambda: "interrupt" in heard.log)
        await transport.aclose()


@pytest.mark.both_servers
async def test_only_the_linked_participant_s_keys_are_taken(
    room_server: RoomEndpoint, room_name: str, agent_room: rtc.Room
) -> None:
    heard, transport = Heard(), transport_in(agent_room)
    async with joined(room_server, room_name, "caller") as caller, anyio.create_task_group() as tasks:
        await tasks.start(transport.run, heard)
        await heard.until(lambda: "linked caller" in heard.log)
        async with joined(room_server, room_name, "guest") as guest:
            await guest.room.local_participant.publish_dtmf(code=1, digit="1")
            await caller.room.local_participant.publish_dtmf(code=11, digit="#")
            await heard.until(lambda: "key #" in heard.log)
            assert "key 1" not in heard.log
        await transport.aclose()


@pytest.mark.both_servers
async def test_token_that_may_not_publish_is_named_at_once(room_server: RoomEndpoint, room_name: str) -> None:
    room = rtc.Room()
    grants = api.VideoGrants(room_join=True, room=room_name, can_publish=False)
    await room.connect(room_server.url, room_server.token("agent", room_name, grants=grants))
    transport = transport_in(room)
    with anyio.fail_after(LIMIT), pytest.raises(RoomError, match=r"grant canPublish"):
        await transport.run(Heard())
    await transport.leave()
    await transport.aclose()


@pytest.mark.both_servers
async def test_only_the_linked_participant_types_to_the_session(
    room_server: RoomEndpoint, room_name: str, agent_room: rtc.Room
) -> None:
    heard, transport = Heard(), transport_in(agent_room, participant="caller")
    async with (
        joined(room_server, room_name, "guest") as guest,
        joined(room_server, room_name, "caller") as caller,
        anyio.create_task_group() as tasks,
    ):
        await tasks.start(transport.run, heard)
        await heard.until(lambda: bool(heard.log))
        await guest.room.local_participant.send_text("not for you", topic="lk.chat")
        for number in range(3):
            await caller.room.local_participant.send_text(f"text {number}", topic="lk.chat")
        await heard.until(lambda: len(heard.texts) == 3)
        await transport.aclose()
    assert heard.texts == ["text 0", "text 1", "text 2"]
    assert heard.log == ["linked caller"]


@pytest.mark.both_servers
async def test_states_are_shown_under_the_rooms_names_and_a_burst_ends_at_the_newest(
    room_server: RoomEndpoint, room_name: str, agent_room: rtc.Room
) -> None:
    transport = transport_in(agent_room)
    async with joined(room_server, room_name, "caller") as caller, anyio.create_task_group() as tasks:
        await tasks.start(transport.run, Heard())
        for state, shown in (("starting", "initializing"), ("idle", "listening"), ("thinking", "thinking")):
            transport.send_agent_state(state)
            await caller.until(lambda shown=shown: caller.states[-1:] == [shown])  # type: ignore[misc]
        for state in ("listening", "thinking", "speaking", "closing", "closed"):
            transport.send_agent_state(state)
        await caller.until(lambda: caller.states[-1:] == ["speaking"])
        await transport.aclose()
    assert caller.states[:3] == ["initializing", "listening", "thinking"]


@pytest.mark.both_servers
async def test_other_agents_are_not_linked_and_a_later_phone_call_is(
    room_server: RoomEndpoint, room_name: str, agent_room: rtc.Room
) -> None:
    heard, transport = Heard(), transport_in(agent_room)
    async with joined(room_server, room_name, "helper", "agent") as helper, anyio.create_task_group() as tasks:
        await tasks.start(transport.run, heard)
        await helper.until(lambda: "agent" in helper.audio_from)
        assert not transport.is_audible
        async with joined(room_server, room_name, "phone", "sip") as phone:
            await heard.until(lambda: heard.log == ["linked phone"])
            tasks.start_soon(phone.speak, 600.0, 0.5)
            await heard.until(lambda: len(loud(pcm(heard.frames))) > 0.4 * 16000)
        await transport.aclose()


@pytest.mark.both_servers
async def test_caller_that_leaves_and_returns_is_linked_and_heard_again(
    room_server: RoomEndpoint, room_name: str, agent_room: rtc.Room
) -> None:
    heard, transport = Heard(), transport_in(agent_room)
    async with joined(room_server, room_name, "guest") as guest, anyio.create_task_group() as tasks:
        await tasks.start(transport.run, heard)
        await heard.until(lambda: heard.log == ["linked guest"])
        async with joined(room_server, room_name, "stranger"):
            await guest.room.disconnect()
            await heard.until(lambda: heard.log[1:] == ["left guest"])
            assert not transport.is_audible
            async with joined(room_server, room_name, "guest") as again:
                await heard.until(lambda: heard.log[2:] == ["linked guest"])
                tasks.start_soon(again.speak, 700.0, 0.5)
                await heard.until(lambda: len(loud(pcm(heard.frames))) > 0.4 * 16000)
                await transport.aclose()
    assert pitch(loud(pcm(heard.frames)), 16000) == pytest.approx(700.0, abs=5)


async def test_somebody_else_is_linked_after_the_grace_time_when_the_session_stays_open(
    room_server: RoomEndpoint, room_name: str, agent_room: rtc.Room
) -> None:
    heard, transport = Heard(), transport_in(agent_room, close_on_disconnect=False, participant_grace=0.3)
    async with anyio.create_task_group() as tasks:
        await tasks.start(transport.run, heard)
        async with joined(room_server, room_name, "first"):
            await heard.until(lambda: heard.log == ["linked first"])
        async with joined(room_server, room_name, "second"):
            await heard.until(lambda: heard.log == ["linked first", "left first", "linked second"])
        await transport.aclose()


@pytest.mark.both_servers
async def test_caller_that_publishes_anew_is_heard_again(
    room_server: RoomEndpoint, room_name: str, agent_room: rtc.Room
) -> None:
    heard, transport = Heard(), transport_in(agent_room)
    async with joined(room_server, room_name, "caller") as caller, anyio.create_task_group() as tasks:
        await tasks.start(transport.run, heard)
        for hertz in (500.0, 900.0):
            heard.frames.clear()
            await caller.speak(hertz, 0.5)
            await heard.until(lambda: len(loud(pcm(heard.frames))) > 0.4 * 16000)
            assert pitch(loud(pcm(heard.frames)), 16000) == pytest.approx(hertz, abs=5)
            for sid in list(caller.room.local_participant.track_publications):
                await caller.room.local_participant.unpublish_track(sid)
        await transport.aclose()


@pytest.mark.both_servers
async def test_room_that_throws_the_agent_out_is_told_once_and_closing_stays_clean(
    room_server: RoomEndpoint, room_name: str, agent_room: rtc.Room
) -> None:
    heard, transport = Heard(), transport_in(agent_room)
    async with joined(room_server, room_name, "caller"), anyio.create_task_group() as tasks:
        await tasks.start(transport.run, heard)
        async with api.LiveKitAPI(
            room_server.url.replace("ws", "http", 1), room_server.api_key, room_server.api_secret
        ) as server_api:
            await server_api.room.remove_participant(api.RoomParticipantIdentity(room=room_name, identity="agent"))
        await heard.until(lambda: any(each.startswith("closed") for each in heard.log))
        transport.sink.write(AudioFrame.silence(0.02, 24000))
        await transport.aclose()
        await transport.leave()
    assert [each for each in heard.log if each.startswith("closed")] == ["closed participant_removed"]


async def test_end_for_a_reason_that_the_sdk_has_no_name_for_is_told(
    room_server: RoomEndpoint, room_name: str, agent_room: rtc.Room
) -> None:
    heard, transport = Heard(), transport_in(agent_room)
    async with anyio.create_task_group() as tasks:
        await tasks.start(transport.run, heard)
        agent_room.emit("disconnected", 99)  # the newest server may send values that the SDK does not know yet
        await heard.until(lambda: heard.log == ["closed reason_99"])
        await transport.aclose()


async def test_caller_is_heard_in_a_room_that_subscribes_to_nothing_by_itself(
    room_server: RoomEndpoint, room_name: str
) -> None:
    room, heard = rtc.Room(), Heard()
    await room.connect(
        room_server.url, token(room_server, room_name, "agent", "agent"), rtc.RoomOptions(auto_subscribe=False)
    )
    transport = transport_in(room)
    async with joined(room_server, room_name, "caller") as caller, anyio.create_task_group() as tasks:
        await tasks.start(transport.run, heard)
        tasks.start_soon(caller.speak, 700.0, 0.5)
        await heard.until(lambda: len(loud(pcm(heard.frames))) > 0.4 * 16000)
        await transport.leave()
        await transport.aclose()


async def test_what_the_options_turn_off_is_not_done(
    room_server: RoomEndpoint, room_name: str, agent_room: rtc.Room
) -> None:
    heard = Heard()
    transport = transport_in(agent_room, audio_input=False, text_input=False, transcription=False)
    async with joined(room_server, room_name, "caller") as caller, anyio.create_task_group() as tasks:
        await tasks.start(transport.run, heard)
        await heard.until(lambda: heard.log == ["linked caller"])
        await caller.room.local_participant.send_text("anybody?", topic="lk.chat")
        await caller.speak(700.0, 0.3)
        transport.send_transcript(TranscriptSegment(segment_id="s1", who="agent", text="Hidden.", is_final=True))
        transport.send_turn_record("{}")
        transport.send_agent_state("idle")
        await caller.until(lambda: caller.states == ["listening"])
        await transport.leave()
        await transport.aclose()
    assert (heard.frames, heard.texts, caller.streams) == ([], [], [])


@pytest.mark.both_servers
@pytest.mark.parametrize("scenario", ["SIMULATE_SIGNAL_RECONNECT", "SIMULATE_FULL_RECONNECT"])
async def test_session_goes_on_after_the_agents_connection_was_made_anew(
    room_server: RoomEndpoint, room_name: str, agent_room: rtc.Room, scenario: str
) -> None:
    heard, transport = Heard(), transport_in(agent_room)
    async with joined(room_server, room_name, "caller") as caller, anyio.create_task_group() as tasks:
        await tasks.start(transport.run, heard)
        transport.send_agent_state("thinking")
        await caller.until(lambda: "agent" in caller.audio_from)
        reconnected = anyio.Event()
        agent_room.on("reconnected", reconnected.set)
        tasks.start_soon(caller.speak, 800.0, 8.0)
        await heard.until(lambda: len(loud(pcm(heard.frames))) > 0.4 * 16000)
        await agent_room.simulate_scenario(rtc.SimulateScenarioKind.Value(scenario))
        with anyio.fail_after(LIMIT):
            await reconnected.wait()
        heard.frames.clear()
        await heard.until(lambda: len(loud(pcm(heard.frames))) > 0.4 * 16000)
        assert pitch(loud(pcm(heard.frames)), 16000) == pytest.approx(800.0, abs=5)
        await caller.until(lambda: agent_state(caller) == "thinking")
        transport.send_transcript(TranscriptSegment(segment_id="s2", who="agent", text="Still here.", is_final=True))
        await caller.until(lambda: said(caller, "s2") == "Still here.")
        caller.samples.clear()
        await play(transport, tone(440.0, 1.0, 24000))
        await caller.until(lambda: len(loud(caller.audio())) > 0.9 * PEER_RATE)
        assert pitch(loud(caller.audio()), PEER_RATE) == pytest.approx(440.0, abs=3)
        await transport.aclose()
        tasks.cancel_scope.cancel()
    assert not any(each.startswith("closed") for each in heard.log)


async def test_who_is_gone_is_judged_only_while_the_agent_itself_is_connected(room_name: str) -> None:
    heard, agent_room, reconnecting = Heard(), rtc.Room(), anyio.Event()
    async with RoomProcess(RoomServerOptions(port=0)) as room:
        server = RoomEndpoint(url=room.url, api_key=room.api_key, api_secret=room.api_secret, kind="embedded")
        await agent_room.connect(server.url, token(server, room_name, "agent", "agent"))
        agent_room.on("reconnecting", reconnecting.set)
        transport = transport_in(agent_room)
        async with joined(server, room_name, "caller"), anyio.create_task_group() as tasks:
            await tasks.start(transport.run, heard)
            await heard.until(lambda: heard.log == ["linked caller"])
            gone = anyio.Event()
            agent_room.on("participant_disconnected", lambda _: gone.set())  # the SDK's event before it joins again
            room.kill()
            with anyio.fail_after(LIMIT):
                await reconnecting.wait()
                await gone.wait()
            assert heard.log == ["linked caller"]
            async with RoomProcess(RoomServerOptions(port=int(room.url.rpartition(":")[2]))):
                await heard.until(lambda: heard.log[1:] == ["left caller", "linked caller"])
                await transport.aclose()
                await agent_room.disconnect()


async def test_two_sessions_in_one_room_clash_with_advice_and_follow_each_other_well(
    room_server: RoomEndpoint, room_name: str, agent_room: rtc.Room
) -> None:
    first, second, third = (transport_in(agent_room) for _ in range(3))
    heard = Heard()
    async with joined(room_server, room_name, "caller") as caller, anyio.create_task_group() as tasks:
        await tasks.start(first.run, Heard())
        await caller.until(lambda: caller.audio_from.count("agent") == 1)
        with pytest.raises(RoomError, match=r"lk\.chat.*text_input=False"):
            await second.run(Heard())
        await second.aclose()
        await first.aclose()
        await tasks.start(third.run, heard)
        await caller.until(lambda: caller.audio_from.count("agent") == 2)
        await caller.room.local_participant.send_text("still there?", topic="lk.chat")
        await heard.until(lambda: heard.texts == ["still there?"])
        await third.aclose()
        await third.aclose()


async def test_room_that_is_not_connected_is_refused_with_advice() -> None:
    transport = transport_in(rtc.Room())
    with pytest.raises(RoomError, match=r"not connected; await ctx\.connect\(\)"):
        await transport.run(Heard())
    await transport.aclose()
