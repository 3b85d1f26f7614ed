"""Calls of dead processes of a worker that drains: they go on in that worker."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import anyio
import pytest

from kit.lost_calls import Place, lost_calls
from kit.supervisor_bench import Bench
from vivavoce.agents.memory.calls_in_store import CallsInStore
from vivavoce.agents.memory.stores.sqlite import SqliteStore
from vivavoce.agents.memory.stores.store import Change
from vivavoce.agents.memory.stores.store import Place as StorePlace
from vivavoce.agents.worker.effects import (
    CallClaimed,
    CallLeft,
    DrainRequested,
    JobEnded,
    JoinRequested,
    MessageReceived,
    StartJob,
)
from vivavoce.agents.worker.owner import rescuer
from vivavoce.agents.worker.protocol import Registered
from vivavoce.agents.worker.server_api import ServerApi

PATIENT = 30.0

T = TypeVar("T")

REGISTERED = MessageReceived(connection=1, message=Registered(worker_id="AW_1"))


class ClaimedByAnother(SqliteStore):
    """A store in which another worker claims each call a moment earlier."""

    async def change(self, place: StorePlace, entry: str, change: Change[T]) -> T:
        other = CallsInStore(SqliteStore(self.path))
        for call in await other.read():
            await other.claim(call.lease, owner=call.owner, by="another machine/1/2/rescue", at=call.written_at)
        await other.aclose()
        return await super().change(place, entry, change)


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    async with lost_calls(tmp_path) as place:
        yield place


def _drains_with_a_lost_call() -> Bench:
    bench = Bench()
    bench.start_job("AJ_1")
    bench.give(DrainRequested())
    bench.give(JobEnded(job_id="AJ_1", error="ended by SIGKILL", is_process_lost=True))
    return bench


@pytest.mark.parametrize("participant", ["", "caller"])
async def test_a_call_that_is_lost_while_its_worker_drains_goes_on_there_without_a_dispatch(
    place: Place, participant: str
) -> None:
    await place.caller_joins()
    await place.agent_joins("agent-AJ_1")
    await place.calls.write(replace(place.call, participant=participant))
    bench = _drains_with_a_lost_call()

    async with ServerApi(place.account) as api:
        await place.rescue(api, status=bench.supervisor.status).look()

    assert await place.resumed() == []
    assert [name for name, _ in await place.present()] == ["caller"]
    assert (await place.owners(), place.claimed) == ([rescuer()], [])
    (asked,) = place.posted
    assert isinstance(asked, JoinRequested)
    job = asked.assigned.job
    assert (job.room, job.resumes, job.heals, job.metadata) == ("r", "AJ_1", "AD_1", "table 7")
    assert job.participant_identity == participant
    assert StartJob(assigned=asked.assigned) in bench.give(asked)
    await place.agent_joins_by(asked.assigned.token)
    assert len(await place.present()) == 2


async def test_a_call_that_was_dispatched_again_just_before_its_worker_drains_goes_on_there_at_once(
    place: Place,
) -> None:
    await place.caller_joins()
    await place.calls.write(place.call)
    bench = Bench()
    bench.start_job("AJ_1")
    bench.give(JobEnded(job_id="AJ_1", error="ended by SIGKILL", is_process_lost=True))
    async with ServerApi(place.account) as api:
        rescue = place.rescue(api, status=bench.supervisor.status)
        await rescue.look()
        assert (await place.resumed(), place.claimed) == (["AJ_1"], ["AJ_1"])
        bench.give(CallClaimed(lease="AJ_1"))
        bench.give(DrainRequested())

        await rescue.look()

    (asked,) = place.posted
    assert isinstance(asked, JoinRequested)
    assert StartJob(assigned=asked.assigned) in bench.give(asked)
    assert len(await place.resumed()) == 1


async def test_a_worker_that_drains_is_told_when_its_lost_call_is_over_or_another_worker_has_it(place: Place) -> None:
    await place.calls.write(place.call)  # its caller has gone
    bench = _drains_with_a_lost_call()
    async with ServerApi(place.account) as api:
        await place.rescue(api, status=bench.supervisor.status).look()
    assert place.posted == [CallLeft(lease="AJ_1")]
    assert await place.owners() == []

    await place.caller_joins()
    await place.calls.write(place.call)
    async with ServerApi(place.account) as api:
        await place.rescue(api, ClaimedByAnother(place.path), status=bench.supervisor.status).look()
    assert place.posted == [CallLeft(lease="AJ_1")] * 2


async def test_a_worker_that_ends_removes_the_ghost_of_its_last_call_whose_process_died_while_it_drained(
    place: Place,
) -> None:
    await place.caller_joins()
    await place.agent_joins("agent-AJ_1")
    await place.calls.write(place.call)
    bench = Bench()
    bench.give(DrainRequested())
    care = place.care(lambda: replace(bench.supervisor.status(), is_registered=False))  # it has hung up
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(care.run)
        await anyio.wait_all_tasks_blocked()
        await care.settle()
        assert len(await place.present()) == 2, "a worker that never registered looks for no call"

        care.note(REGISTERED, [])
        await care.settle()
        tasks.cancel_scope.cancel()

    assert [name for name, _ in await place.present()] == ["caller"]
    assert await place.owners() == [place.call.owner]
