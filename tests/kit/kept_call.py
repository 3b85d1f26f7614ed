"""A kept call, the jobs that have it one after the other, and their agent."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from vivavoce.agents import Agent
from vivavoce.agents.cli.console.job import ConsoleJob
from vivavoce.agents.job import JobInfo
from vivavoce.agents.memory.calls_in_store import RunningCall
from vivavoce.agents.worker.owner import rescuer

FIRST = JobInfo(id="AJ_1", room="kitchen", agent_name="host", dispatch_id="AD_1", metadata="m", attributes={"a": "b"})
SECOND = replace(FIRST, id="AJ_2", dispatch_id="AD_2", heals="AD_1", resumes="AJ_1")
KEPT: dict[str, Any] = {
    "version": 1,
    "session_id": "session_1",
    "agent": "Host",
    "history": {
        "version": 1,
        "items": [
            {
                "type": "message",
                "role": "user",
                "content": "for two",
                "id": "item_1",
                "turn_id": "turn_1",
                "sequence": 1,
            },
            {"type": "message", "role": "assistant", "content": "When?", "id": "item_2", "sequence": 2},
        ],
    },
    "userdata": {"people": 2},
    "counters": {"items": 2, "turns": 1},
}


LOST = RunningCall(
    lease="AJ_1",
    owner=rescuer(),
    url="ws://127.0.0.1:7880",
    room="kitchen",
    agent_name="host",
    dispatch_id="AD_1",
    metadata="m",
    attributes={"a": "b"},
    dispatched=1,
    conversation=json.dumps(KEPT),
)
"""The record of the call: its process has died, and a worker has dispatched it again."""


class Host(Agent):
    async def on_enter(self) -> None:
        await self.session.say("Hello.")


class JobInRoom(ConsoleJob):
    """A job whose agent is in a room."""

    @property
    def identity(self) -> str:
        return "agent-AD_1"

    @property
    def sid(self) -> str:
        return "PA_2"
