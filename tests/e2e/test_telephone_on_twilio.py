"""A real telephone (Debian's baresip) that calls an agent of ours on Twilio's wire: the line is Twilio's side."""

from __future__ import annotations

from pathlib import Path

import pytest

from kit.call_server import served, until
from kit.e2e.sdk_client import loud
from kit.limits import LIMIT
from kit.line.answering import (
    ANSWER,
    GREETING,
    GREETING_HERTZ,
    QUESTION_HERTZ,
    Greeter,
    pitch_of,
    question,
    seconds_of_sound,
)
from kit.line.baresip import RATE
from kit.line.called import NUMBER, called
from kit.line.key_tones import keys_heard
from kit.line.on_twilio import on_twilio
from kit.line.sip_line import Leg, sip_line
from kit.line.sipp import sipp_calls
from kit.telephone import Twilio
from vivavoce.agents import AgentSession, JobContext
from vivavoce.agents.testing import ScriptedLLM, ScriptedSTT, ScriptedTTS, ScriptedVAD
from vivavoce.pipelines.cascading import CascadingPipeline

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120)]


async def test_a_telephone_is_greeted_asks_and_stops_the_answer_by_a_key(tmp_path: Path) -> None:
    answer = " ".join([ANSWER] * 4)  # it is still under way when the key comes, also on a busy machine
    async with called(tmp_path, says=question(after=2.6), answer=answer) as it:
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
    assert GREETING / 2 < seconds_of_sound(heard) < GREETING + 8.0  # a part of the answer's forty words
    assert it.keys == "5"
    assert it.vendor.clears == 1
    [_, _, (_, answered)] = it.history()
    assert answer.startswith(answered)
    assert (it.errors, it.closed) == ([], "participant_left")


@pytest.mark.test_all("seconds of real time; one call of a telephone is in make test")
async def test_an_agent_hangs_up_after_its_last_word(tmp_path: Path) -> None:
    async with called(tmp_path, says=question(after=1.6)) as it:
        await it.dial()
        await it.answer_begun()
        await it.session.hangup()
        await it.phone.until_event("CALL_CLOSED")
        await it.until(lambda: it.closed is not None)
    assert len(it.played()) / RATE == pytest.approx(GREETING + 2.0, abs=0.04)  # counted, not measured
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
        assert vendor.played
