"""Harnesses: several sessions in one virtual time, which exchange messages, share a store or hand a call over."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, ExitStack
from types import TracebackType
from typing import Self, TypeVar

import anyio

from vivavoce.agents.testing.harness import SessionHarness
from vivavoce.agents.testing.virtual_run import SharedTime, begun, run_alone, shared_time
from vivavoce.pipelines.core.errors import SessionNotStartedError

HarnessT = TypeVar("HarnessT", bound=SessionHarness)

JointScenario = Callable[["Harnesses"], Awaitable[None]]
"""The test's code that runs during the sessions: an async function of the harnesses."""


class Harnesses:
    """Runs the sessions of several harnesses in one virtual time::

        def test_the_buyer_gets_an_offer():
            buyer, seller = SessionHarness(Buyer(), options=…), SessionHarness(Seller(), options=…)

            async def scenario(calls):
                await buyer.user("a pound of tea")

            Harnesses(buyer, seller).run(scenario, until=8.0)
            seller.expect_history(…)

    The sessions start one after the other, and are closed in the opposite order; a scenario may start further ones, and
    close some earlier (`harness.session.close()`). Each is checked as in a run of its own, when all are over. A test
    that owns its loop writes `async with Harnesses(…) as calls:`.
    """

    def __init__(self, *harnesses: SessionHarness) -> None:
        self._harnesses = harnesses
        self._stack: AsyncExitStack | None = None
        self._contexts = ExitStack()
        self._shared: SharedTime | None = None
        self._began_at = 0.0

    def run(self, scenario: JointScenario | None = None, *, until: float = 0.0, limit: float = 3600.0) -> Self:
        """Start the sessions on virtual time, run `scenario`, continue to `until`, close them, and check each.

        Args:
            until: Seconds from the start of the first session.
            limit: Virtual seconds after which the run counts as endless.
        Raises:
            As `SessionHarness.run`; the error names the session.
        """

        async def main() -> None:
            async with self:
                if scenario is not None:
                    await begun(scenario, self)
                await self.until(until)

        run_alone(main, limit=limit)
        return self

    async def start(self, harness: HarnessT) -> HarnessT:
        """Start one more session, beside those that run; return its harness."""
        if self._stack is None:
            raise SessionNotStartedError("sessions are started by run(), or in `async with Harnesses(…)`")
        await self._stack.enter_async_context(harness)
        return harness

    async def until(self, seconds: float) -> None:
        """Let time pass until `seconds` from the start of the first session."""
        await anyio.sleep(max(0.0, seconds - self.now))

    @property
    def now(self) -> float:
        """Seconds since the start of the first session."""
        return anyio.current_time() - self._began_at

    async def __aenter__(self) -> Self:
        if self._shared is not None:
            raise RuntimeError("these harnesses have run their sessions; make others")
        self._began_at = anyio.current_time()
        self._shared = self._contexts.enter_context(shared_time())
        async with AsyncExitStack() as stack:
            stack.callback(self._contexts.close)
            for harness in self._harnesses:
                await stack.enter_async_context(harness)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._stack is not None
        assert self._shared is not None
        await self._stack.__aexit__(kind, error, trace)
        if error is None:
            self._shared.check()
