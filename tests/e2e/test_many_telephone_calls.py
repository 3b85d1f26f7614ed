"""Fifty telephone calls at once on one server of media streams, in one process, with scripted providers and VAD."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import anyio
import pytest

from kit.call_server import Served, served, until
from kit.limits import LIMIT
from kit.telephone import Twilio
from vivavoce.agents import Agent, AgentSession, JobContext
from vivavoce.agents.testing import ScriptedLLM, ScriptedSTT, ScriptedTTS, ScriptedVAD
from vivavoce.pipelines.cascading import CascadingPipeline

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.timeout(180),
    pytest.mark.test_all("many calls keep both cores busy"),
]

CALLS = 50
SPEECH = (0.6, 1.4)
SECONDS_PER_WORD = 0.2
FRAME = 0.02


@dataclass
class Call:
    """Both ends of one call."""

    session: AgentSession[Any]
    stt: ScriptedSTT
    vendors: list[Twilio] = field(default_factory=list)

    def history(self) -> list[tuple[str, str]]:
        return [(message.role, message.content) for message in self.session.history.messages()]


def number_of(call: int) -> str:
    return f"+1555{call:04}"


def answer_to(call: int) -> str:
    """Words of a call's own, and a length of its own."""
    return " ".join([f"hello-{call}"] * (1 + call % 5))


def seconds_of(answer: str) -> float:
    return SECONDS_PER_WORD * len(answer.split())


async def test_each_of_fifty_calls_gets_its_own_words_and_loses_no_frame() -> None:
    calls: dict[str, Call] = {}

    async def entrypoint(ctx: JobContext) -> None:
        assert ctx.caller is not None
        call = int(ctx.caller.number.removeprefix("+1555"))
        stt, llm = ScriptedSTT([f"I am {call}"]), ScriptedLLM(answer_to(call))
        pipeline = CascadingPipeline(vad=ScriptedVAD(), stt=stt, llm=llm, tts=ScriptedTTS())
        session = AgentSession(Agent("Help."), pipeline)
        calls[ctx.caller.number] = Call(session, stt)
        await session.start()

    async with served(entrypoint, limit=CALLS) as server, anyio.create_task_group() as tasks:
        for number in range(CALLS):
            tasks.start_soon(hold, server, calls, number)
        await until(lambda: server.calls.state().status.counts.succeeded == CALLS, LIMIT)

    for number in range(CALLS):
        call = calls[number_of(number)]
        assert call.history() == [("user", f"I am {number}"), ("assistant", answer_to(number))]
        [vendor] = call.vendors
        assert len(vendor.played) / 2 / 8000 == pytest.approx(seconds_of(answer_to(number)), abs=1.5 * FRAME)
        [stream] = call.stt.streams
        assert vendor.sent * FRAME > SPEECH[1]
        assert stream.pushed_seconds == pytest.approx(vendor.sent * FRAME, abs=FRAME)
        assert [turn.outcome for turn in call.session.turns] == ["completed"]


async def hold(server: Served, calls: dict[str, Call], number: int) -> None:
    async with server.phone(await server.parameters(number_of(number))) as vendor, anyio.create_task_group() as tasks:
        tasks.start_soon(vendor.talk, [SPEECH])
        await until(lambda: number_of(number) in calls, LIMIT)
        call = calls[number_of(number)]
        call.vendors.append(vendor)
        await until(lambda: len(call.session.turns) == 1 and len(call.history()) == 2, LIMIT)
        await vendor.until_played(seconds_of(answer_to(number)) - FRAME)
        tasks.cancel_scope.cancel()  # it talks no more
        [stream] = call.stt.streams
        await until(lambda: stream.pushed_seconds > vendor.sent * FRAME - FRAME, LIMIT)
        vendor.hang_up()
        await vendor.over.wait()
