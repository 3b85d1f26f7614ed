"""Switchboard: the demo worker's entrypoint; one session of the table host for each call, shown live."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import anyio

from vivavoce.agents.audio.recording.options import RecordingOptions
from vivavoce.agents.cli.demo.agent import Bookings, TableHost
from vivavoce.agents.cli.live.follow import follow
from vivavoce.agents.session.options import SessionOptions
from vivavoce.agents.session.session import AgentSession
from vivavoce.agents.transports.options import RoomOptions

if TYPE_CHECKING:
    from vivavoce.agents.cli.live.view import View
    from vivavoce.agents.job import JobContext
    from vivavoce.agents.records import SessionReport
    from vivavoce.pipelines.pipeline import Pipeline

PARTICIPANT_GRACE = 0.5
"""Seconds for the return of a caller who has left; short, so that the demo's report follows the call at once."""


@dataclass(slots=True)
class Call:
    """One call, from the first line of its job on."""

    room: str
    bookings: Bookings = field(default_factory=Bookings)
    report: SessionReport | None = None
    recording: Path | None = None
    """Path of the agent's own recording."""
    is_over: anyio.Event = field(default_factory=anyio.Event)


class Switchboard:
    """Answers the calls.

    Args:
        make_pipeline: Returns a pipeline for one session.
        view: Shows the calls.
    """

    def __init__(self, make_pipeline: Callable[[], Pipeline], view: View) -> None:
        self._make_pipeline = make_pipeline
        self._view = view
        self._calls: dict[str, Call] = {}

    def expect(self, room: str, *, recording: Path | None = None) -> Call:
        """Return the call in that room; it may not have begun."""
        return self._calls.setdefault(room, Call(room, recording=recording))

    async def entrypoint(self, context: JobContext) -> None:
        """Run one call; the worker's entrypoint."""
        call = self.expect(context.job.room)
        session = AgentSession(
            TableHost(call.bookings),
            self._make_pipeline(),
            userdata=call.bookings,
            options=SessionOptions(
                capture_content=True,
                recording=None if call.recording is None else RecordingOptions(path=call.recording),
            ),
        )
        follow(session, self._view)
        self._view.call_started(call.room)
        try:
            await session.start(room_options=RoomOptions(publish_turns=True, participant_grace=PARTICIPANT_GRACE))
            await session.wait_closed()
        finally:
            call.report = session.report()
            call.is_over.set()
            self._calls.pop(call.room, None)
        context.shutdown("the call is over")
