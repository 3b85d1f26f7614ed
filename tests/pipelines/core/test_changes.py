"""Changes: who waits for the next change of a state, and who wakes."""

from __future__ import annotations

import anyio

from vivavoce.pipelines.core.changes import Changes
from vivavoce.pipelines.testing import run_virtual


def test_a_change_wakes_all_that_wait_and_a_later_wait_is_for_the_next_one() -> None:
    async def test() -> None:
        changes, woken = Changes(), list[str]()

        async def wait(name: str, times: int) -> None:
            for _ in range(times):
                await changes.wait()
                woken.append(name)

        async with anyio.create_task_group() as group:
            group.start_soon(wait, "once", 1)
            group.start_soon(wait, "twice", 2)
            await anyio.sleep(1)
            assert woken == []
            changes.note()
            await anyio.sleep(1)
            assert sorted(woken) == ["once", "twice"]
            changes.note()
            await anyio.sleep(1)
            assert sorted(woken) == ["once", "twice", "twice"]

    run_virtual(test())
