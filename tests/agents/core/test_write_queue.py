"""WriteQueue: each entry is written in order or counted as lost, also in batches, while entries come during a write."""

from __future__ import annotations

from collections.abc import Sequence

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.memory import session_with
from vivavoce.agents.core.context import SessionContext
from vivavoce.agents.core.write_queue import LAST_TRIES, MAX_WAITING, WriteQueue
from vivavoce.agents.testing import VirtualClock, run_virtual


class Health:
    """Notes the outcomes of writes."""

    def __init__(self) -> None:
        self.outcomes: list[str] = []

    def worked(self, by: str = "") -> None:
        self.outcomes.append(f"worked {by}")

    def failed(self, error: Exception, by: str = "") -> None:
        self.outcomes.append(f"failed {by}")

    def lost(self, error: Exception) -> None:
        self.outcomes.append(f"lost: {error}")


class Target:
    """Takes entries slowly; fails and refuses as the test sets it."""

    def __init__(self, context: SessionContext, *, batch: int) -> None:
        self.health = Health()
        self.error: Exception | None = None
        self.seconds = 0.0
        self.written: list[int] = []
        self.refused: list[int] = []
        self.sizes: list[int] = []
        self.queue = WriteQueue[int](
            context, "the target", self._write, self.health, name="numbers", batch=batch, refuses=_is_value_error
        )

    async def _write(self, entries: Sequence[int]) -> None:
        await anyio.sleep(self.seconds)
        if isinstance(self.error, ValueError):
            self.refused += entries
        if self.error is not None:
            raise self.error
        self.written += entries
        self.sizes.append(len(entries))


def _is_value_error(error: Exception, tries: int) -> bool:
    return isinstance(error, ValueError)


class Picky(Target):
    """Refuses writes that hold a seven."""

    async def _write(self, entries: Sequence[int]) -> None:
        self.error = ValueError("seven") if 7 in entries else None
        await super()._write(entries)


def context() -> SessionContext:
    session = session_with()
    capabilities = session.pipeline.capabilities
    return SessionContext(session, "call", VirtualClock(), agent=session.agent, capabilities=capabilities, limit=5.0)


def test_of_entries_that_are_refused_together_only_the_one_at_fault_is_lost() -> None:
    async def test() -> None:
        async with anyio.create_task_group() as group:
            session = context()
            session.open(group)
            target = Picky(session, batch=10)
            for number in range(25):
                target.queue.put(number)
            target.queue.open()
            await target.queue.aclose()
        assert target.written == [number for number in range(25) if number != 7]
        assert target.queue.lost == 1
        assert target.sizes == [1] * 9 + [10, 5]

    run_virtual(test())


def test_entries_that_wait_are_written_in_batches_and_the_failures_have_the_queue_s_name() -> None:
    async def test() -> None:
        async with anyio.create_task_group() as group:
            session = context()
            session.open(group)
            target = Target(session, batch=3)
            target.queue.begin_with(range(4))
            target.queue.put(4)
            target.queue.open()
            target.error = OSError("full")
            await anyio.sleep(0.1)
            target.error = None
            await target.queue.aclose()
        assert (target.written, target.sizes, target.queue.lost) == ([0, 1, 2, 3, 4], [3, 2], 0)
        assert target.health.outcomes == ["failed numbers", "worked numbers", "worked numbers"]

    run_virtual(test())


def test_the_queues_of_a_session_share_the_time_in_which_the_close_makes_writes_again() -> None:
    async def test() -> None:
        async with anyio.create_task_group() as group:
            session = context()
            session.open(group)
            targets = [Target(session, batch=3) for _ in range(2)]
            for target in targets:
                target.queue.put(1)
                target.queue.open()
                target.error = OSError("down")
            began = anyio.current_time()
            for target in targets:
                await target.queue.aclose()
            assert anyio.current_time() - began == pytest.approx(LAST_TRIES)
        assert [target.queue.lost for target in targets] == [1, 1]

    run_virtual(test())


def test_entries_that_are_dropped_while_they_are_being_written_are_not_lost() -> None:
    async def test() -> None:
        async with anyio.create_task_group() as group:
            session = context()
            session.open(group)
            target = Target(session, batch=3)
            target.seconds = 1.0
            target.queue.open()
            for number in range(MAX_WAITING):
                target.queue.put(number)
            await anyio.sleep(0.5)  # 0, 1 and 2 are being written
            for number in range(MAX_WAITING, MAX_WAITING + 5):
                target.queue.put(number)
            assert target.queue.lost == 5
            await anyio.sleep(1.0)
            assert target.queue.lost == 2
            await target.queue.aclose()
        lost = {3, 4}
        assert target.written == [number for number in range(MAX_WAITING + 5) if number not in lost]
        assert target.queue.lost == len(lost)
        assert target.health.outcomes[0] == f"lost: the target is {MAX_WAITING} changes behind; the oldest are lost"

    run_virtual(test())


STEPS = st.lists(
    st.one_of(st.integers(1, 4), st.sampled_from(["fails", "refuses", "works", "slow", "wait"])), max_size=30
)


@given(STEPS, st.integers(1, 4))
def test_each_entry_is_written_once_in_order_or_refused_and_counted(steps: list[int | str], batch: int) -> None:
    async def test() -> None:
        put = 0
        async with anyio.create_task_group() as group:
            session = context()
            session.open(group)
            target = Target(session, batch=batch)
            target.queue.open()
            for step in steps:
                if isinstance(step, int):
                    for _ in range(step):
                        target.queue.put(put)
                        put += 1
                elif step == "wait":
                    await anyio.sleep(3.0)
                elif step == "slow":
                    target.seconds = 1.0
                else:
                    target.error = {"fails": OSError("down"), "refuses": ValueError("never"), "works": None}[step]
            if isinstance(target.error, OSError):
                target.error = None
            await target.queue.aclose()
        lost = set(range(put)) - set(target.written)
        assert target.written == sorted(set(target.written))
        assert lost <= set(target.refused)
        assert target.queue.lost == len(lost)

    run_virtual(test())
