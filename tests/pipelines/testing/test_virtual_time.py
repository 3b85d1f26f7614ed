"""Virtual time: exact jumps, standing still for threads, and a clear error instead of a hang."""

from __future__ import annotations

import asyncio
import selectors
import threading

import anyio
import anyio.to_thread
import pytest

from vivavoce.pipelines.core.clock import LoopClock
from vivavoce.pipelines.core.errors import ConfigurationError
from vivavoce.pipelines.testing import virtual_time
from vivavoce.pipelines.testing.virtual_time import (
    EPOCH,
    VirtualClock,
    VirtualTimeError,
    VirtualTimeLoop,
    run_virtual,
)

Ready = list[tuple[selectors.SelectorKey, int]]


def test_an_hour_passes_at_once_and_times_are_exact() -> None:
    async def main() -> list[float]:
        clock = VirtualClock()
        times = [clock.now()]
        for when in (0.1, 0.3, 0.7, 1.1, 3599.9):
            fired = anyio.Event()
            clock.call_at(when, fired.set)
            await fired.wait()
            times.append(clock.now())
        return times

    assert run_virtual(main()) == [0.0, 0.1, 0.3, 0.7, 1.1, 3599.9]


def test_timers_one_float_apart_fire_each_at_its_own_time() -> None:
    async def main() -> list[tuple[str, float]]:
        clock = VirtualClock()
        fired: list[tuple[str, float]] = []
        clock.call_at(0.1 + 0.2, lambda: fired.append(("late", clock.now())))
        clock.call_at(0.3, lambda: fired.append(("early", clock.now())))
        await anyio.sleep(1)
        return fired

    assert run_virtual(main()) == [("early", 0.3), ("late", 0.1 + 0.2)]


def test_cancelled_timers_do_not_move_time() -> None:
    async def main() -> float:
        clock = VirtualClock()
        clock.call_at(5.0, lambda: None).cancel()
        await anyio.sleep(1.0)
        return clock.now()

    assert run_virtual(main()) == 1.0


def test_anyio_limits_run_on_virtual_time() -> None:
    async def main() -> float:
        with anyio.move_on_after(2.5):
            await anyio.sleep_forever()
        return VirtualClock().now()

    assert run_virtual(main()) == 2.5


def test_wall_time_is_a_fixed_epoch_plus_virtual_time() -> None:
    async def main() -> float:
        await anyio.sleep(2)
        return VirtualClock().wall()

    assert run_virtual(main()) == EPOCH + 2


def test_wall_time_is_known_in_threads_and_after_the_loop_as_that_of_a_real_clock_is() -> None:
    clock = VirtualClock(epoch=100.0)

    async def main() -> float:
        await anyio.sleep(5.0)
        clock.now()
        with clock.hold():
            return await asyncio.to_thread(clock.wall)

    assert (run_virtual(main()), clock.wall()) == (105.0, 105.0)


@pytest.mark.parametrize("kind", [VirtualClock, LoopClock])
def test_time_stands_still_while_a_held_thread_works(kind: type[VirtualClock | LoopClock]) -> None:
    async def main() -> float:
        clock = kind()
        release = threading.Event()
        ticks: list[float] = []
        clock.call_at(0.5, lambda: ticks.append(clock.now()))
        threading.Timer(0.05, release.set).start()
        with clock.hold():
            await anyio.to_thread.run_sync(release.wait)
        assert ticks == []
        return clock.now()

    assert run_virtual(main()) == 0.0


def test_executor_threads_hold_time_by_themselves() -> None:
    async def main() -> float:
        loop = asyncio.get_running_loop()
        release = threading.Event()
        threading.Timer(0.05, release.set).start()
        loop.call_later(0.5, lambda: None)
        await asyncio.to_thread(release.wait)
        return loop.time()

    assert run_virtual(main()) == 0.0


def test_a_thread_that_a_stall_of_the_machine_has_held_up_gets_time_to_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    release = threading.Event()
    waits = selectors.DefaultSelector.select

    def select(selector: selectors.DefaultSelector, timeout: float | None = None) -> Ready:
        if timeout and not release.is_set():
            release.set()  # the machine stood still in this wait: it is over, and the thread goes on only now
            return []
        return waits(selector, timeout)

    monkeypatch.setattr(selectors.DefaultSelector, "select", select)
    assert run_virtual(asyncio.to_thread(release.wait))


def test_a_thread_that_does_not_return_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(virtual_time, "FOREIGN_LIMIT", 0.5)
    release = threading.Event()

    async def main() -> None:
        try:
            await asyncio.to_thread(release.wait)
        finally:
            release.set()

    with pytest.raises(VirtualTimeError, match=r"silent for 0\.5 real seconds"):
        run_virtual(main())


def test_waiting_for_nothing_is_an_error_that_names_the_task() -> None:
    async def stuck() -> None:
        await anyio.Event().wait()

    with pytest.raises(VirtualTimeError, match=r"nothing is scheduled(.|\n)*stuck"):
        run_virtual(stuck())


def test_an_endless_run_ends_at_its_limit() -> None:
    async def endless() -> None:
        for _ in range(1000):
            await anyio.sleep(1)

    with pytest.raises(VirtualTimeError, match=r"past the limit of 10\.0 s"):
        run_virtual(endless(), limit=10.0)


def test_the_clock_refuses_a_loop_in_real_time() -> None:
    async def main() -> float:
        return VirtualClock().now()

    with pytest.raises(ConfigurationError, match="VirtualTimeLoop"):
        asyncio.run(main())


def test_real_descriptors_are_served() -> None:
    async def main() -> bytes:
        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(await reader.readexactly(2))
            writer.close()
            await writer.wait_closed()

        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        async with server:
            reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            writer.write(b"ok")
            data = await reader.read()
            writer.close()
            await writer.wait_closed()
        assert isinstance(asyncio.get_running_loop(), VirtualTimeLoop)
        return data

    assert run_virtual(main()) == b"ok"
