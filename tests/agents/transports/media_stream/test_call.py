"""Whole calls on Twilio's wire, in virtual time, with scripted providers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import anyio
import numpy as np

from kit.telephone import LOUD, SILENT, Twilio, Wire
from vivavoce.agents import Agent, AgentSession, SessionOptions, events
from vivavoce.agents.testing import ScriptedLLM, ScriptedSTT, ScriptedTTS, ScriptedVAD, run_virtual
from vivavoce.agents.transports.media_stream.transport import MediaStreamTransport, wait_for_start
from vivavoce.agents.transports.media_stream.twilio.wire import TwilioWire
from vivavoce.pipelines.cascading import CascadingPipeline
from vivavoce.pipelines.core.clock import LoopClock

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

    @property
    def seconds_heard(self) -> float:
        return len(self.vendor.played) / 2 / 8000

    def history(self) -> list[tuple[str, str]]:
        return [(item.role, item.text) for item in self.session.history.items if getattr(item, "text", "")]


def hold(
    *answers: Any,
    says: list[str],
    speech: list[tuple[float, float]],
    until: float,
    scenario: Callable[[Phone], Awaitable[None]] | None = None,
    agent: Agent | None = None,
    delay: float = 0.04,
    **more: Any,
) -> Phone:
    """Hold a call: the caller is loud at the times of `speech`, and its turns have the words of `says`."""

    async def main() -> Phone:
        vendor = Twilio(Wire(delay), parameters={"from": "+15550100", "to": "+15550199", "campaign": "spring"})
        vendor.begin()
        wire, clock = TwilioWire(), LoopClock()
        transport = MediaStreamTransport(vendor.wire, wire, await wait_for_start(vendor.wire, wire), clock)
        pipeline = CascadingPipeline(
            vad=ScriptedVAD(), stt=ScriptedSTT(says), llm=ScriptedLLM(*answers), tts=ScriptedTTS()
        )
        session = AgentSession(agent or Agent("Help."), pipeline, options=SessionOptions(clock=clock), **more)
        phone = Phone(vendor, session, transport)
        session.on(events.KeyPressed, lambda event: phone.keys.append(event.key))
        session.on(events.ErrorOccurred, lambda event: phone.errors.append(str(event.error)))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(vendor.run)
            await session.start(transport)
            if scenario is not None:
                tasks.start_soon(scenario, phone)
            tasks.start_soon(vendor.talk, speech)
            with anyio.move_on_after(until):
                await session.wait_closed()
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
