"""A scripted avatar on virtual time, on the other end of an AvatarSink, and a call in which it speaks."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import anyio
from anyio.abc import TaskGroup

from vivavoce.agents import AgentSession, SessionOptions
from vivavoce.agents.testing import Recording, SessionHarness, VirtualClock, run_virtual
from vivavoce.agents.transports.livekit.avatar_sink import AvatarSink
from vivavoce.agents.transports.local import LocalTransport

RATE = 24000


class VirtualAvatar:
    """Plays what the sink sends, at the clock's speed, and reports as livekit-agents' runner does.

    Args:
        delay: Seconds that a command or report takes.
        start: Seconds from the first audio until it plays.
    """

    def __init__(self, clock: VirtualClock, *, delay: float = 0.03, start: float = 0.2, lead: float = 0.6) -> None:
        self.sink = AvatarSink(clock, sample_rate=RATE, lead=lead)
        self.delay, self.start = delay, start
        self.reports_start = True
        self.reports_end = True
        self.lives = True
        self.commands: list[str] = []
        self.positions: list[tuple[float, bool]] = []
        """Each end that it reported: the position (s), and whether it was cut."""
        self._clock = clock
        self._received = 0
        self._began: float | None = None
        self._playing = anyio.CancelScope()

    async def run(self) -> None:
        async with anyio.create_task_group() as tasks:
            while True:
                command = await self.sink.next_command()
                self.commands.append("audio" if isinstance(command, bytes) else command)
                await anyio.sleep(self.delay)
                self._take(command, tasks)

    def _take(self, command: object, tasks: TaskGroup) -> None:
        if not self.lives:
            return
        if isinstance(command, bytes):
            self._received += len(command) // 2
            if self._began is None:
                self._began = self._clock.now() + self.start
                tasks.start_soon(self._report_start)
        elif command == "open":
            self._received, self._began = 0, None
        elif command == "end" and self._began is not None:
            tasks.start_soon(self._report_end)
        elif command == "clear":
            self._playing.cancel()
            if self._began is not None and self._clock.now() >= self._began:
                position = min(self._received / RATE, self._clock.now() - self._began)
                tasks.start_soon(self._report, position, True)
            self._began = None
        elif command == "probe":
            self.sink.lives()

    async def _report_start(self) -> None:
        await anyio.sleep(self.start + self.delay)
        if self.reports_start and self._began is not None:
            self.sink.started()

    async def _report_end(self) -> None:
        assert self._began is not None
        seconds = self._received / RATE
        with anyio.CancelScope() as self._playing:
            await anyio.sleep(max(0.0, self._began + seconds - self._clock.now()))
            await self._report(seconds, False)

    async def _report(self, seconds: float, interrupted: bool) -> None:
        self.positions.append((round(seconds, 6), interrupted))
        await anyio.sleep(self.delay)
        if self.reports_end:
            self.sink.finished(seconds, interrupted=interrupted)


class AvatarCall:
    """A session whose audio an avatar plays; `harness` has its scripted parts and its caller."""

    def __init__(self, harness: SessionHarness, clock: VirtualClock, avatar: VirtualAvatar) -> None:
        self.harness, self.clock, self.avatar = harness, clock, avatar
        self.session: AgentSession[Any] = AgentSession(
            harness.agent,
            harness.pipeline,
            options=SessionOptions(clock=clock, preemptive=False, capture_content=True, away_after=None),
        )
        self.recording = Recording()
        self.recording.listen(self.session)

    async def until(self, seconds: float) -> None:
        await anyio.sleep(max(0.0, seconds - self.clock.now()))


def avatar_call(
    harness: SessionHarness, scenario: Callable[[AvatarCall], Awaitable[None]], **avatar: float
) -> AvatarCall:
    """Run a call on virtual time."""
    calls: list[AvatarCall] = []

    async def main() -> None:
        clock = VirtualClock()
        call = AvatarCall(harness, clock, VirtualAvatar(clock, **avatar))
        calls.append(call)
        transport = LocalTransport(clock, sink=call.avatar.sink)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call.avatar.run)
            harness.caller.begin(transport, clock)
            async with call.session:
                await call.session.start(transport)
                await scenario(call)
            harness.caller.stop()
            tasks.cancel_scope.cancel()

    run_virtual(main())
    return calls[0]
