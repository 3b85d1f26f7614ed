"""A real telephone (Debian's baresip) that calls an agent of ours on Twilio's wire: the line is Twilio's side."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from kit.call_server import served, until
from kit.e2e.sdk_client import loud
from kit.limits import LIMIT
from kit.line.answering import (
    ANSWER,
    GREETING,
    GREETING_HERTZ,
    QUESTION_HERTZ,
    Answering,
    Greeter,
    pitch_of,
    question,
    seconds_of_sound,
)
from kit.line.baresip import NOTHING, RATE, Baresip, telephone
from kit.line.key_tones import keys_heard
from kit.line.on_twilio import on_twilio
from kit.line.sip_line import Leg, SipLine, sip_line
from kit.line.sipp import sipp_calls
from kit.telephone import Twilio
from vivavoce.agents import AgentSession, JobContext
from vivavoce.agents.testing import ScriptedLLM, ScriptedSTT, ScriptedTTS, ScriptedVAD
from vivavoce.pipelines.cascading import CascadingPipeline
from vivavoce.pipelines.io import CallerInfo

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120)]

NUMBER = "+15550199"
FADE = 0.05
"""Seconds in which a speech that is cut fades: the telephone hears them, and they count as no word."""


class Called(Answering):
    """What a telephone called: the agent, the telephone, and the line between them."""

    def __init__(self, folder: Path, line: SipLine, phone: Baresip) -> None:
        super().__init__(folder)
        self.line, self.phone = line, phone
        self.calls: list[tuple[Leg, Twilio]] = []
        self.callers: list[CallerInfo | None] = []

    async def entrypoint(self, ctx: JobContext) -> None:
        self.callers.append(ctx.caller)
        await self.session.start()

    async def dial(self) -> None:
        await self.phone.dial(self.line.address(NUMBER))
        await self.phone.until_event("CALL_ESTABLISHED")

    async def answer_begun(self) -> None:
        """Wait until the agent answers the question."""
        await self.until(lambda: self.session.agent_state == "speaking" and len(self.history()) == 2)

    async def is_silent(self) -> None:
        """Wait until the agent says nothing, and the telephone has played all that was said."""
        await self.until(lambda: self.session.agent_state == "idle")
        await self.leg.settle()

    async def hang_up(self) -> None:
        """Hang up at the telephone, and wait until both ends have seen it."""
        await self.phone.do("hangup")
        await self.until(lambda: self.closed is not None)
        await self.phone.until_event("CALL_CLOSED")

    @property
    def leg(self) -> Leg:
        [(leg, _)] = self.calls
        return leg

    @property
    def vendor(self) -> Twilio:
        [(_, vendor)] = self.calls
        return vendor

    def played(self) -> npt.NDArray[np.int16]:
        """What Twilio has played to the telephone."""
        return np.frombuffer(bytes(self.vendor.played), np.int16)


@asynccontextmanager
async def called(folder: Path, *, says: npt.NDArray[np.int16] = NOTHING) -> AsyncIterator[Called]:
    async with sip_line() as line, telephone(folder, says=says) as phone:
        it = Called(folder, line, phone)
        async with served(it.entrypoint) as server:
            line.on_call = on_twilio(server, it.calls)
            yield it


async def test_a_telephone_is_greeted_asks_and_stops_the_answer_by_a_key(tmp_path: Path) -> None:
    async with called(tmp_path, says=question(after=1.6)) as it:
        await it.dial()
        await it.answer_begun()
        await it.phone.press("5")
        await it.is_silent()
        await it.hang_up()
    [caller] = it.callers
    assert caller is not None
    assert (caller.number, caller.called_number, caller.line) == ("alice", NUMBER, "twilio")
    assert pitch_of(it.question()) == pytest.approx(QUESTION_HERTZ, abs=2.0)
    heard = it.phone.heard()
    assert pitch_of(loud(heard)[: RATE // 2]) == pytest.approx(GREETING_HERTZ, abs=2.0)
    assert GREETING < seconds_of_sound(heard) < GREETING + 2.0  # a part of the answer's ten words
    assert it.keys == "5"
    assert it.vendor.clears == 1
    [_, _, (_, answered)] = it.history()
    assert ANSWER.startswith(answered)
    assert (it.errors, it.closed) == ([], "participant_left")


@pytest.mark.test_all("measured sound")
async def test_a_telephone_has_heard_what_the_session_counts_as_heard(tmp_path: Path) -> None:
    async with called(tmp_path, says=question(after=1.6)) as it:
        await it.dial()
        await it.answer_begun()
        await it.vendor.until_played(GREETING + 0.8)
        await it.phone.press("5")
        await it.is_silent()
        await it.hang_up()
    assert seconds_of_sound(it.phone.heard()) == pytest.approx(seconds_of_sound(it.played()), abs=0.04)
    assert seconds_of_sound(it.played()) == pytest.approx(it.seconds_played, abs=0.04 + FADE)
    assert it.vendor.clears == 1


@pytest.mark.test_all("seconds of real time; one call of a telephone is in make test")
async def test_an_agent_hangs_up_after_its_last_word(tmp_path: Path) -> None:
    async with called(tmp_path, says=question(after=1.6)) as it:
        await it.dial()
        await it.answer_begun()
        await it.session.hangup()
        await it.phone.until_event("CALL_CLOSED")
        await it.until(lambda: it.closed is not None)
    assert seconds_of_sound(it.played()) == pytest.approx(GREETING + 2.0, abs=0.04)
    assert it.vendor.clears == 0
    assert (it.errors, it.leg.is_over) == ([], True)


@pytest.mark.test_all("seconds of real time; one call of a telephone is in make test")
async def test_keys_reach_a_telephone_as_tones_and_come_from_it_as_events(tmp_path: Path) -> None:
    async with called(tmp_path) as it:
        await it.dial()
        await it.phone.press("19*0#AD")
        await it.until(lambda: len(it.keys) == 7)
        await it.session.telephony.send_keys("159*0#")
        await it.is_silent()
        await it.hang_up()
    assert it.keys == "19*0#AD"
    assert keys_heard(it.phone.heard()) == "159*0#"
    assert it.errors == []


@pytest.mark.test_all("seconds of real time; one call of a telephone is in make test")
async def test_a_telephone_that_holds_the_call_comes_back_to_it(tmp_path: Path) -> None:
    async with called(tmp_path) as it:
        await it.dial()
        await it.is_silent()
        await it.phone.do("hold")
        await it.phone.until(lambda: it.line.directions == ["sendonly"])
        _ = it.session.say("one two three")  # not awaited: the telephone plays it to nobody
        await it.is_silent()
        await it.phone.do("resume")
        await it.phone.until(lambda: it.line.directions[1:] == ["sendrecv"])
        await it.phone.press("7")
        await it.until(lambda: it.keys == "7")
        await it.hang_up()
    assert (it.errors, it.closed) == ([], "participant_left")


@pytest.mark.test_all("ten telephones")
async def test_ten_telephones_call_at_once_in_another_law_and_each_is_greeted(tmp_path: Path) -> None:
    greeted: list[AgentSession[None]] = []

    async def entrypoint(ctx: JobContext) -> None:
        pipeline = CascadingPipeline(vad=ScriptedVAD(), stt=ScriptedSTT(), llm=ScriptedLLM(), tts=ScriptedTTS())
        session = AgentSession(Greeter(), pipeline)
        await session.start()
        greeted.append(session)

    calls: list[tuple[Leg, Twilio]] = []
    async with sip_line() as line, served(entrypoint) as server:
        line.on_call = on_twilio(server, calls)
        await sipp_calls(tmp_path, line.port, count=10)
        await until(lambda: not server.calls.count, LIMIT)
        assert server.calls.state().status.counts.succeeded == 10
    assert len(greeted) == 10
    for _, vendor in calls:
        assert len(vendor.played) / 2 / RATE == pytest.approx(GREETING, abs=0.04)
