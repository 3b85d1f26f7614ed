"""Foreign code in a task of its own: finished, cut, or left behind; its errors end with it."""

from __future__ import annotations

import asyncio
import logging

import anyio
import pytest

from vivavoce.pipelines.core.errors import VoiceError
from vivavoce.pipelines.core.owned_call import OwnedCall, finish_all
from vivavoce.pipelines.testing import run_virtual


def test_a_call_that_ends_in_time_is_waited_for() -> None:
    async def main() -> None:
        call = OwnedCall("a nap", lambda: anyio.sleep(1.0))
        async with anyio.create_task_group() as group:
            group.start_soon(call.run)
            began = anyio.current_time()
            await call.finish(2.0)
            assert anyio.current_time() - began == pytest.approx(1.0)
        assert call.is_done
        assert not call.is_cut

    run_virtual(main())


def test_a_call_that_does_not_end_is_cut_and_may_unwind() -> None:
    unwound: list[float] = []

    async def foreign() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.sleep(0.5)
            unwound.append(anyio.current_time())

    async def main() -> None:
        call = OwnedCall("a long nap", foreign)
        async with anyio.create_task_group() as group:
            group.start_soon(call.run)
            began = anyio.current_time()
            await call.finish(2.0)
            assert anyio.current_time() - began == pytest.approx(2.5)
        assert call.is_done
        assert call.is_cut
        assert len(unwound) == 1

    run_virtual(main())


def test_a_call_that_ignores_its_cancellation_is_left_behind_and_named(caplog: pytest.LogCaptureFixture) -> None:
    async def foreign() -> None:
        with anyio.CancelScope(shield=True):
            await anyio.sleep(60.0)

    async def main() -> None:
        stubborn, obedient = OwnedCall("the stubborn one", foreign), OwnedCall("the other", anyio.sleep_forever)
        async with anyio.create_task_group() as group:
            group.start_soon(stubborn.run)
            group.start_soon(obedient.run)
            began = anyio.current_time()
            await finish_all([stubborn, obedient], 2.0, unwind=0.5)
            assert anyio.current_time() - began == pytest.approx(2.5)
            assert not stubborn.is_done
            assert obedient.is_done

    with caplog.at_level(logging.ERROR, logger="vivavoce.pipelines"):
        run_virtual(main())
    assert [record.getMessage() for record in caplog.records] == [
        "the stubborn one ignores its cancellation and is left behind"
    ]


def test_a_shielded_call_outlives_the_cancellation_of_its_group_but_not_its_own() -> None:
    async def main() -> None:
        call = OwnedCall("a nap", anyio.sleep_forever, is_shielded=True)
        async with anyio.create_task_group() as group:
            group.start_soon(call.run)
            group.cancel_scope.cancel()
            with anyio.CancelScope(shield=True):
                await anyio.sleep(1.0)
                assert not call.is_done
                await call.finish(0.0)
        assert call.is_done

    run_virtual(main())


def test_what_a_call_raises_is_told_and_ends_with_it() -> None:
    told: list[BaseException] = []

    async def broken() -> None:
        raise KeyError("mine")

    async def stray() -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        future.cancel()
        await future

    async def main() -> None:
        async with anyio.create_task_group() as group:
            for call in (broken, stray):
                group.start_soon(OwnedCall(call.__name__, call, told.append).run)

    run_virtual(main())
    assert sorted(type(error).__name__ for error in told) == ["KeyError", "VoiceError"]
    assert "stray ended with a cancellation" in str(next(error for error in told if isinstance(error, VoiceError)))
