"""A telephone that calls an agent on Twilio's wire, in one process with the line and the server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import numpy as np
import numpy.typing as npt

from kit.call_server import served
from kit.line.answering import ANSWER, Answering
from kit.line.baresip import NOTHING, Baresip, telephone
from kit.line.on_twilio import on_twilio
from kit.line.sip_line import Leg, SipLine, sip_line
from kit.telephone import Twilio
from vivavoce.agents import JobContext
from vivavoce.pipelines.io import CallerInfo

NUMBER = "+15550199"


class Called(Answering):
    """What a telephone called: the agent, the telephone, and the line between them."""

    def __init__(self, folder: Path, line: SipLine, phone: Baresip, answer: str) -> None:
        super().__init__(folder, answer=answer)
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
async def called(folder: Path, *, says: npt.NDArray[np.int16] = NOTHING, answer: str = ANSWER) -> AsyncIterator[Called]:
    """Switch a telephone on whose calls an agent answers.

    Args:
        says: What is said into it.
        answer: What the agent says to the caller's question.
    """
    async with sip_line() as line, telephone(folder, says=says) as phone:
        it = Called(folder, line, phone, answer)
        async with served(it.entrypoint) as server:
            line.on_call = on_twilio(server, it.calls)
            yield it
