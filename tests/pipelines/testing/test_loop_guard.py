"""A loop that is not given back fails the test, in virtual and in real time, and the stack is shown."""

from __future__ import annotations

import asyncio
import threading

import anyio
import pytest

from vivavoce.pipelines.testing import LoopGuard, LoopHeldError, VirtualTimeError, run_virtual

LIMIT = 0.5


def computes_for_ever() -> None:
    while True:
        pass


def swallows_what_it_can() -> None:
    try:
        computes_for_ever()
    except BaseException:  # noqa: BLE001 - as a loop does with what a callback raises
        return


def guard() -> LoopGuard:
    return LoopGuard(asyncio.get_running_loop(), limit=LIMIT)


async def test_a_loop_that_is_held_by_a_computation_is_interrupted_and_shows_where() -> None:
    with pytest.raises(LoopHeldError, match=r"not given back for 0\.5 s of real time") as held, guard():
        computes_for_ever()
    assert "in computes_for_ever" in str(held.value)


async def test_a_loop_that_is_held_by_a_lock_is_interrupted_too() -> None:
    lock = threading.Lock()
    with lock, pytest.raises(LoopHeldError), guard():
        lock.acquire()


async def test_a_held_loop_fails_the_test_even_where_the_interruption_was_swallowed() -> None:
    with pytest.raises(LoopHeldError, match="swallows_what_it_can"), guard():
        swallows_what_it_can()


async def test_a_loop_that_waits_is_not_held() -> None:
    with guard():
        await anyio.sleep(3 * LIMIT)


async def test_the_inner_guard_of_two_leaves_a_held_loop_to_the_one_with_the_shorter_limit() -> None:
    with pytest.raises(LoopHeldError), guard(), LoopGuard(asyncio.get_running_loop(), limit=60.0):
        computes_for_ever()


def test_a_computation_in_virtual_time_is_interrupted() -> None:
    async def main() -> None:
        await anyio.sleep(100.0)
        computes_for_ever()

    with pytest.raises(LoopHeldError, match="in computes_for_ever"):
        run_virtual(main(), held_limit=LIMIT)


def test_a_callback_that_swallows_the_interruption_fails_the_run_in_virtual_time() -> None:
    async def main() -> None:
        asyncio.get_running_loop().call_later(1.0, swallows_what_it_can)
        await anyio.sleep(2.0)

    with pytest.raises(LoopHeldError, match="swallows_what_it_can"):
        run_virtual(main(), held_limit=LIMIT)


def test_an_hour_of_many_short_steps_holds_nothing_up() -> None:
    async def main() -> float:
        for _ in range(20_000):
            await anyio.sleep(0.1)
        return asyncio.get_running_loop().time()

    assert run_virtual(main(), held_limit=LIMIT) == pytest.approx(2000.0)


def test_a_thread_that_is_waited_for_does_not_hold_the_loop() -> None:
    async def main() -> None:
        await asyncio.to_thread(threading.Event().wait, 3 * LIMIT)

    run_virtual(main(), held_limit=LIMIT)


def test_work_that_never_lets_time_pass_is_an_error() -> None:
    def again() -> None:
        asyncio.get_running_loop().call_soon(again)

    async def main() -> None:
        again()
        await anyio.sleep(1.0)

    with pytest.raises(VirtualTimeError, match=r"time stands still after \d+ rounds"):
        run_virtual(main())


def test_a_guard_works_in_another_thread_than_the_main_one() -> None:
    raised: list[BaseException] = []

    def sits(seconds: float) -> None:
        threading.Event().wait(seconds)

    async def main() -> None:
        with guard():
            sits(3 * LIMIT)

    def run() -> None:
        try:
            asyncio.run(main())
        except LoopHeldError as error:
            raised.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    (error,) = raised
    assert "in sits" in str(error)
