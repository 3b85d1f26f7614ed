"""A close whose own steps cannot be made: it ends all the same, and its report says so."""

from __future__ import annotations

from typing import Never

import anyio

from vivavoce.agents import Agent, AgentSession, SessionOptions
from vivavoce.agents.records import CloseReport
from vivavoce.agents.testing import ScriptedTTS, VirtualClock, run_virtual
from vivavoce.agents.transports.local import LocalTransport
from vivavoce.pipelines import CascadingPipeline


class BrokenTransport(LocalTransport):
    """Its `leave` cannot even be read: the list of the close's steps cannot be made."""

    @property
    def leave(self) -> Never:
        raise OSError("the transport is broken")


def test_a_close_that_breaks_off_ends_all_the_same_while_one_speech_plays_and_another_waits() -> None:
    async def scenario() -> CloseReport:
        clock = VirtualClock()
        pipeline = CascadingPipeline(tts=ScriptedTTS())
        session = AgentSession[None](Agent("Help."), pipeline, options=SessionOptions(clock=clock))
        await session.start(BrokenTransport(clock))
        handles = [session.say("one two three four five six seven eight"), session.say("nine")]
        await anyio.sleep(1.0)
        with anyio.fail_after(60.0):
            report = await session.leave()
        assert all(handle.is_done for handle in handles)
        return report

    assert run_virtual(scenario()).error == "the close was broken off"
