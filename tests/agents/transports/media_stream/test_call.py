"""Whole calls on Twilio's wire, in virtual time, with scripted providers."""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

import anyio
import numpy as np
import numpy.typing as npt
import pytest

from kit.telephone import Twilio, Wire
from vivavoce.agents import Agent, AgentSession, SessionOptions, events
from vivavoce.agents.telephony import MachineDetection, TelephonyOptions
from vivavoce.agents.testing import ScriptedLLM, ScriptedSTT, ScriptedTTS, ScriptedVAD, run_virtual
from vivavoce.agents.transports.media_stream.plivo.wire import PlivoWire
from vivavoce.agents.transports.media_stream.transport import MediaStreamTransport, wait_for_start
from vivavoce.agents.transports.media_stream.twilio.wire import TwilioWire
from vivavoce.pipelines.cascading import CascadingPipeline
from vivavoce.pipelines.core.clock import LoopClock
from vivavoce.pipelines.io import CallerInfo
from vivavoce.pipelines.media import g711

COUNT = "one two three four five six seven eight nine ten eleven twelve"


@dataclass
class Phone:
    """One call that was held."""

    vendor: Twilio
    session: AgentSession[Any]
    transport: MediaStreamTransport
    keys: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    closed_at: float | None = None
    close_reason: str = ""

    @property
    def seconds_heard(self) -> float:
        return len(self.vendor.played) / 2 / 8000

    def history(self) -> list[tuple[str, str]]:
        return [(message.role, message.content) for message in self.session.history.messages()]


def hold(
    *answers: Any,
    says: list[str],
    speech: list[tuple[float, float]],
    until: float,
    scenario: Callable[[Phone], Coroutine[Any, Any, None]] | None = None,
    agent: Agent | None = None,
    telephony: TelephonyOptions | None = None,
    delay: float = 0.04,
    lost: tuple[tuple[float, float], ...] = (),
    held: tuple[tuple[float, float], ...] = (),
    **more: Any,
) -> Phone:
    """Hold a call: the caller is loud at the times of `speech`, and its turns have the words of `says`."""

    async def main() -> Phone:
        vendor = Twilio(Wire(delay), parameters={"from": "+15550100", "to": "+15550199", "campaign": "spring"})
        vendor.lost, vendor.held = list(lost), list(held)
        vendor.begin()
        wire, clock = TwilioWire(), LoopClock()
        transport = MediaStreamTransport(vendor.wire, wire, await wait_for_start(vendor.wire, wire), clock)
        pipeline = CascadingPipeline(
            vad=ScriptedVAD(), stt=ScriptedSTT(says), llm=ScriptedLLM(*answers), tts=ScriptedTTS()
        )
        options = SessionOptions(clock=clock, telephony=telephony)
        session = AgentSession(agent or Agent("Help."), pipeline, options=options, **more)
        phone = Phone(vendor, session, transport)
        session.on(events.KeyPressed, lambda event: phone.keys.append(event.key))
        session.on(events.ErrorOccurred, lambda event: phone.errors.append(str(event.error)))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(vendor.run)
            if scenario is not None:
                tasks.start_soon(scenario, phone)
            await session.start(transport)
            tasks.start_soon(vendor.talk, speech)
            with anyio.move_on_after(until):
                phone.close_reason = (await session.wait_closed()).reason
                phone.closed_at = clock.now()
            await session.close()
            await anyio.sleep(1.0)
            tasks.cancel_scope.cancel()
        return phone

    return run_virtual(main())


def test_a_caller_asks_and_hears_the_answer() -> None:
    phone = hold("At nine.", says=["when do you open"], speech=[(1.0, 2.0)], until=6.0)
    assert phone.history() == [("user", "when do you open"), ("assistant", "At nine.")]
    assert abs(phone.seconds_heard - 0.4) < 0.05
    assert phone.errors == []
    assert phone.vendor.is_over


def test_heard_text_is_what_the_phone_has_played() -> None:
    phone = hold(COUNT, "Yes?", says=["count", "stop"], speech=[(1.0, 2.0), (4.0, 4.6)], until=9.0)
    answer = phone.history()[1][1]
    heard = answer.split()
    assert COUNT.startswith(answer)
    # the words take 0.2 s each; the second answer has one
    assert abs(len(heard) * 0.2 - (phone.seconds_heard - 0.2)) <= 0.24
    assert phone.vendor.clears >= 1
    assert [turn.outcome for turn in phone.session.turns] == ["interrupted", "completed"]


def test_the_webhooks_parameters_and_numbers_are_the_transports_record() -> None:
    phone = hold("Hm.", says=[], speech=[], until=1.0)
    call = phone.transport.call
    assert (call.line, call.number, call.called_number, call.parameters) == (
        "twilio",
        "+15550100",
        "+15550199",
        {"campaign": "spring"},
    )
    assert "+1555" not in repr(call)
    assert phone.transport.caller == CallerInfo(
        number="+15550100",
        called_number="+15550199",
        parameters={"campaign": "spring"},
        line="twilio",
        identity="+15550100",
    )


def test_keys_come_as_events_while_the_call_goes_on() -> None:
    async def press(phone: Phone) -> None:
        await anyio.sleep(0.5)
        for key in "19*0#a":
            phone.vendor.press(key)

    phone = hold("Hm.", says=[], speech=[], until=2.0, scenario=press)
    assert phone.keys == list("19*0#A")
    assert phone.errors == []


def test_an_entry_by_keys_is_a_turn_and_keys_go_out_as_tones_on_a_wire_without_a_message_for_them() -> None:
    async def enter(phone: Phone) -> None:
        await anyio.sleep(0.5)
        for key in "42#":
            phone.vendor.press(key)
        await anyio.sleep(2.5)
        phone.vendor.played.clear()
        await phone.session.telephony.send_keys("5")

    telephony = TelephonyOptions(keys_as_turn="I entered {keys}.")
    phone = hold("Thanks.", says=[], speech=[], until=6.0, scenario=enter, telephony=telephony)
    assert phone.history() == [("user", "I entered 42."), ("assistant", "Thanks.")]
    tone = np.frombuffer(bytes(phone.vendor.played), np.int16)[160:720]
    spectrum = np.abs(np.fft.rfft(tone * np.hanning(len(tone)), 8000))
    assert sorted(int(peak) for peak in np.argsort(spectrum * _is_peak(spectrum))[-2:]) == pytest.approx(
        [770, 1336], abs=12
    )
    assert phone.errors == []


def _is_peak(spectrum: npt.NDArray[np.float64]) -> npt.NDArray[np.bool_]:
    return (spectrum >= np.roll(spectrum, 1)) & (spectrum >= np.roll(spectrum, -1))


async def test_keys_go_out_by_plivos_message() -> None:
    socket, wire = Wire(), PlivoWire()
    form = {"encoding": "audio/x-mulaw", "sampleRate": 8000}
    socket.give({"event": "start", "start": {"callId": "C1", "streamId": "S1", "mediaFormat": form}})
    transport = MediaStreamTransport(socket, wire, await wait_for_start(socket, wire), LoopClock())
    assert await transport.send_keys("12#")
    await transport.aclose()
    assert json.loads(str(await socket.from_us.get())) == {"event": "sendDTMF", "dtmf": "12#"}


def test_the_callers_hang_up_ends_the_session_at_once() -> None:
    async def hang_up(phone: Phone) -> None:
        await anyio.sleep(1.5)
        phone.vendor.hang_up()

    phone = hold("Hm.", says=[], speech=[], until=9.0, scenario=hang_up)
    assert phone.closed_at is not None
    assert phone.closed_at < 2.0
    assert phone.close_reason == "participant_left"  # as in a room
    assert phone.errors == []


def test_the_agents_hang_up_closes_the_socket_after_its_last_word() -> None:
    class Host(Agent):
        async def on_enter(self) -> None:
            await self.session.say("Good bye.")
            await self.session.hangup()

    phone = hold(says=[], speech=[], until=9.0, agent=Host("Help."))
    assert phone.vendor.is_over
    assert phone.closed_at is not None
    assert phone.close_reason == "user_initiated"
    assert abs(phone.seconds_heard - 0.4) < 0.05
    assert phone.errors == []


def test_the_log_names_the_side_that_hung_up(caplog: pytest.LogCaptureFixture) -> None:
    class Host(Agent):
        async def on_enter(self) -> None:
            await self.session.say("Goodbye.")
            await self.session.hangup()

    caplog.set_level("INFO")
    hold(says=[], speech=[], until=9.0, agent=Host("Help."))
    assert "the agent has hung up" in caplog.text
    assert "the caller has hung up" not in caplog.text


def test_a_hang_up_by_both_sides_is_no_error() -> None:
    class Host(Agent):
        async def on_enter(self) -> None:
            await anyio.sleep(1.0)
            await self.session.hangup()

    async def hang_up(phone: Phone) -> None:
        await anyio.sleep(0.99)
        phone.vendor.hang_up()

    phone = hold(says=[], speech=[], until=9.0, agent=Host("Help."), scenario=hang_up)
    assert phone.errors == []


def test_a_stall_of_two_seconds_in_a_turn_loses_no_turn_and_makes_no_second_answer() -> None:
    phone = hold("At nine.", says=["when do you open"], speech=[(1.0, 4.5)], held=((2.0, 4.0),), until=9.0)
    assert phone.history() == [("user", "when do you open"), ("assistant", "At nine.")]


def test_lost_frames_in_a_turn_do_not_end_it() -> None:
    phone = hold("At nine.", says=["when do you open"], speech=[(1.0, 2.5)], lost=((1.5, 1.56), (2.0, 2.1)), until=6.0)
    assert phone.history() == [("user", "when do you open"), ("assistant", "At nine.")]


def test_malformed_messages_are_one_error_and_the_call_goes_on() -> None:
    async def harm(phone: Phone) -> None:
        await anyio.sleep(0.5)
        give = phone.vendor.wire.give
        give("{")
        give("[]")
        give(b"\x00" * 10)
        give({"event": "media", "streamSid": "MZ1", "media": {"payload": "§"}})
        give({"event": "media", "streamSid": "MZ2", "media": {"payload": ""}})
        phone.vendor.begin()  # a second start
        give({"event": "mark", "streamSid": "MZ1", "mark": {"name": "never sent"}})
        give({"event": "new", "streamSid": "MZ1"})

    phone = hold("At nine.", says=["when do you open"], speech=[(1.0, 2.0)], until=6.0, scenario=harm)
    assert len(phone.errors) == 1
    assert "needed a message in JSON, got" in phone.errors[0]
    assert phone.history() == [("user", "when do you open"), ("assistant", "At nine.")]


def test_a_stream_of_nothing_but_malformed_messages_ends_the_call() -> None:
    async def harm(phone: Phone) -> None:
        for _ in range(200):
            phone.vendor.wire.give("{")

    phone = hold(says=[], speech=[], until=6.0, scenario=harm)
    assert phone.closed_at is not None
    assert phone.closed_at < 2.0


def test_a_socket_that_takes_no_bytes_ends_the_call() -> None:
    async def stick(phone: Phone) -> None:
        await anyio.sleep(1.0)
        phone.vendor.wire.is_stuck = True

    class Host(Agent):
        async def on_enter(self) -> None:
            await anyio.sleep(2.0)
            await self.session.say(COUNT)

    phone = hold(says=[], speech=[], until=20.0, scenario=stick, agent=Host("Help."))
    assert phone.closed_at is not None
    assert phone.closed_at < 12.0


def test_a_socket_that_takes_no_bytes_is_closed_by_a_close_of_the_session_too() -> None:
    async def stick(phone: Phone) -> None:
        await anyio.sleep(0.9)
        phone.vendor.wire.is_stuck = True
        await anyio.sleep(0.3)
        await phone.session.close()

    class Host(Agent):
        async def on_enter(self) -> None:
            await self.session.say(COUNT)

    assert hold(says=[], speech=[], until=20.0, scenario=stick, agent=Host("Help.")).vendor.is_over


def test_a_message_is_left_after_the_beep_of_a_voicemail() -> None:
    async def leave_message(phone: Phone) -> None:
        times = np.arange(8000 // 2) / 8000
        codes = g711.encode((8000 * np.sin(2 * np.pi * 1400 * times)).astype(np.int16).tobytes(), "mulaw")
        phone.vendor.sounds = {250 + number: codes[160 * number : 160 * (number + 1)] for number in range(25)}
        await anyio.sleep(0.2)  # the session has started
        telephony = phone.session.telephony
        assert (await telephony.answered_by()).kind == "machine"
        assert await telephony.wait_for_beep() == "beep"
        await phone.session.say("Call back please.")

    phone = hold(
        says=["please leave a message after the tone"],
        speech=[(0.5, 3.0)],
        until=8.0,
        scenario=leave_message,
        telephony=TelephonyOptions(machine_detection=MachineDetection()),
    )
    assert phone.history() == [("assistant", "Call back please.")]
    assert phone.errors == []


def test_a_call_without_audio_from_the_other_side_is_judged_too() -> None:
    verdicts: list[tuple[str, str]] = []

    async def judge(phone: Phone) -> None:
        await anyio.sleep(0.2)  # the session has started
        verdict = await phone.session.telephony.answered_by()
        verdicts.append((verdict.kind, verdict.reason))
        await phone.session.say("Good day.")

    phone = hold(
        says=[],
        speech=[],
        until=8.0,
        scenario=judge,
        lost=((0.0, 60.0),),
        telephony=TelephonyOptions(machine_detection=MachineDetection()),
    )
    assert verdicts == [("unknown", "silence")]
    assert phone.seconds_heard > 0.1
