"""ConsoleJob: the job of a conversation without a room, so that an app's entrypoint runs unchanged."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from anyio.abc import TaskGroup

from vivavoce.agents.job import JobControl, JobInfo
from vivavoce.pipelines.io import CallerInfo, Transport


@dataclass(frozen=True, slots=True)
class ConsoleParticipant:
    """The person at the console, with the attributes of a participant that apps use."""

    identity: str = "console"
    name: str = "console"
    sid: str = "PA_console"
    metadata: str = ""
    attributes: dict[str, str] = field(default_factory=dict)


class ConsoleJob(JobControl):
    """A job whose room is a transport: sessions start in it, and there is nothing else of a room.

    Args:
        transport: Transport of the conversation.
    """

    def __init__(self, job: JobInfo, transport: Transport, *, shared: dict[str, Any], tasks: TaskGroup) -> None:
        super().__init__(job, shared=shared, tasks=tasks)
        self._transport = transport

    @property
    def room(self) -> Any:
        """The transport, in place of a room."""
        return self._transport

    @property
    def caller(self) -> CallerInfo | None:
        """The person at the console."""
        return self._transport.caller or CallerInfo(line="console", identity=ConsoleParticipant().identity)

    async def connect(self, auto_subscribe: bool) -> None:
        """Do nothing: there is no room to join."""

    async def participant(self, identity: str | None, kind: int | None) -> Any:
        """Return the person at the console."""
        return ConsoleParticipant()

    async def leave(self) -> None:
        """Leave the transport."""
        await self._transport.leave()
