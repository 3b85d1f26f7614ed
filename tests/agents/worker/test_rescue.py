"""Calls of dead processes on a development room in this process: claimed, dispatched again once, or forgotten."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import anyio
import pytest

from kit.lost_calls import LIMIT, Place, dead_owner, lost_calls
from kit.supervisor_bench import Bench
from vivavoce.agents.job import JobInfo
from vivavoce.agents.memory.calls_in_store import CALLS_PLACE
from vivavoce.agents.memory.stores.sqlite import SqliteStore
from vivavoce.agents.memory.stores.store import Change
from vivavoce.agents.memory.stores.store import Place as StorePlace
from vivavoce.agents.worker import care as care_module
from vivavoce.agents.worker import rescue as rescue_module
from vivavoce.agents.worker.agent_token import agent_token
from vivavoce.agents.worker.effects import (
    DrainRequested,
    ExecutorChanged,
    JobEnded,
    MessageReceived,
    StartJob,
    WorkerStatus,
)
from vivavoce.agents.worker.options import AgentPermissions
from vivavoce.agents.worker.owner import owner_of_job, owner_of_lost_job, rescuer
from vivavoce.agents.worker.protocol import JobAssigned, Registered
from vivavoce.agents.worker.room_facts import NewDispatch
from vivavoce.agents.worker.server_api import ServerApi
from vivavoce.pipelines.core.clock import LoopClock
from vivavoce.pipelines.core.errors import WorkerError

PATIENT = 30.0

T = TypeVar("T")

REGISTERED = MessageReceived(connection=1, message=Registered(worker_id="AW_1"))


class RefusesAtFirst(ServerApi):
    """The API of a server that is busy for a while."""

    is_refusing = True

    async def dispatch(self, wanted: NewDispatch) -> str:
        if self.is_refusing:
            raise WorkerError("busy")
        return await super().dispatch(wanted)


class HangsOnce(SqliteStore):
    """A store whose first claim never returns; the limit is short for that call alone."""

    has_hung = False

    async def read_all(self, place: StorePlace) -> dict[str, str]:
        found = await super().read_all(place)
        rescue_module.STORE_LIMIT = PATIENT if self.has_hung else 0.2
        return found

    async def change(self, place: StorePlace, entry: str, change: Change[T]) -> T:
        if not self.has_hung:
            self.has_hung, rescue_module.STORE_LIMIT = True, PATIENT
            await anyio.sleep_forever()
        return await super().change(place, entry, change)


class Away(SqliteStore):
    """A store that takes no change until it is back."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.back = anyio.Event()
        self.begun: list[str] = []

    async def change(self, place: StorePlace, entry: str, change: Change[T]) -> T:
        if place == CALLS_PLACE and entry not in self.begun:
            self.begun.append(entry)
        await self.back.wait()
        return await super().change(place, entry, change)


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    async with lost_calls(tmp_path) as place:
        yield place


async def test_a_call_of_a_dead_process_is_dispatched_again_once_by_many_workers(place: Place) -> None:
    await place.caller_joins()
    await place.calls.write(place.call)

    (made,) = await place.look(workers=5)

    assert (made.agent_name, made.metadata, made.attributes) == ("host", "table 7", {"tier": "gold"})
    assert (made.heals, made.resumes) == ("AD_1", "AJ_1")
    assert place.claimed == ["AJ_1"]
    assert await place.owners() == [rescuer()]
    assert await place.look() == (made,)  # its job has some seconds to come


async def test_a_worker_claims_no_more_lost_calls_than_it_has_slots_for(place: Place) -> None:
    await place.caller_joins()
    for number in range(4):
        lease = f"AJ_{number}"
        await place.calls.write(replace(place.call, lease=lease, owner=dead_owner(lease), dispatch_id=f"AD_{number}"))
    async with ServerApi(place.account) as api:
        rescue = place.rescue(api, slots=2)
        for _ in range(2):  # the jobs of the first two have not come yet
            await rescue.look()
            assert (await place.owners()).count(rescuer()) == 2
            assert len(place.claimed) == 2


async def test_lost_calls_without_a_caller_use_up_no_slot(place: Place) -> None:
    await place.caller_joins()
    for number in range(3):
        await place.calls.write(replace(place.call, lease=f"AJ_0{number}", owner=dead_owner("AJ_0"), room="closed"))
    await place.calls.write(place.call)
    async with ServerApi(place.account) as api:
        await place.rescue(api, slots=1).look()

    assert await place.owners() == [rescuer()]
    assert await place.resumed() == ["AJ_1"]


async def test_a_worker_without_a_process_for_jobs_claims_no_lost_call_until_it_has_one(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(care_module, "INTERVAL", 0.01)
    await place.caller_joins()
    await place.calls.write(place.call)
    bench = Bench()
    asked: list[None] = []

    def status() -> WorkerStatus:
        asked.append(None)
        return bench.supervisor.status()

    care = place.care(status)
    bench.give(ExecutorChanged(is_ready=False))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(care.run)
        care.note(REGISTERED, [])
        with anyio.fail_after(LIMIT):
            while len(asked) < 3:  # noqa: ASYNC110 - looks have no event
                await anyio.sleep(0.01)
            assert await place.owners() == [place.call.owner]

            ready = ExecutorChanged(is_ready=True)
            bench.give(ready)
            care.note(ready, [])
        await place.until_owners_are(rescuer())
        tasks.cancel_scope.cancel()


async def test_a_full_worker_leaves_lost_calls_to_others_and_forgets_those_without_a_caller(place: Place) -> None:
    await place.caller_joins()
    await place.calls.write(place.call)
    await place.calls.write(replace(place.call, lease="AJ_2", owner=dead_owner("AJ_2"), room="closed"))
    bench = Bench(max_jobs=1)
    bench.start_job("AJ_7")
    care = place.care(bench.supervisor.status)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(care.run)
        care.note(REGISTERED, [])
        await place.until_owners_are(place.call.owner)
        tasks.cancel_scope.cancel()
    assert await place.resumed() == []


async def test_a_call_is_kept_from_its_assignment_on_and_a_process_that_dies_before_it_has_the_record_loses_no_call(
    place: Place,
) -> None:
    await place.caller_joins()
    job = JobInfo(id="AJ_1", room="r", agent_name="host", dispatch_id="AD_1", metadata="table 7")
    token = agent_token(place.account, "r", "agent-AJ_1", AgentPermissions(), agent_name="host")
    begins = StartJob(assigned=JobAssigned(job=job, url="", token=token))
    care = place.care(Bench().supervisor.status)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(care.run)
        care.note(REGISTERED, [begins])
        await place.until_owners_are(owner_of_job("AJ_1"))
        [call] = await place.calls.read()
        assert (call.lease, call.url, call.room, call.agent_name) == ("AJ_1", place.server.url, "r", "host")
        assert (call.dispatch_id, call.metadata, call.identity) == ("AD_1", "table 7", "agent-AJ_1")
        care.note(JobEnded(job_id="AJ_1", error="no process"), [])
        await place.until_owners_are()

        care.note(REGISTERED, [begins])
        await place.until_owners_are(owner_of_job("AJ_1"))
        care.note(JobEnded(job_id="AJ_1", error="killed", is_process_lost=True), [])
        await place.until_owners_are(rescuer())
        with anyio.fail_after(LIMIT):
            while await place.resumed() != ["AJ_1"]:  # noqa: ASYNC110 - no event for it
                await anyio.sleep(0.01)
        tasks.cancel_scope.cancel()


async def test_a_job_that_ends_while_the_store_is_away_leaves_no_note_unless_its_record_was_begun_or_its_process_died(
    place: Place,
) -> None:
    def begins(job_id: str) -> JobAssigned:
        token = agent_token(place.account, "r", "agent", AgentPermissions(), agent_name="host")
        return JobAssigned(job=JobInfo(id=job_id, room="r", agent_name="host"), url="", token=token)

    store = Away(place.path)
    async with ServerApi(place.account) as api, anyio.create_task_group() as tasks:
        rescue = place.rescue(api, store)
        tasks.start_soon(rescue.keep_records)
        rescue.note(begins("AJ_1"))
        with anyio.fail_after(LIMIT):
            while not store.begun:  # noqa: ASYNC110 - no event for it
                await anyio.sleep(0.01)
        for job_id in ("AJ_2", "AJ_3"):
            rescue.note(begins(job_id))
        rescue.note(JobEnded(job_id="AJ_1"))
        rescue.note(JobEnded(job_id="AJ_2"))
        rescue.note(JobEnded(job_id="AJ_3", error="killed", is_process_lost=True))
        store.back.set()
        await place.until_owners_are(owner_of_lost_job("AJ_3"))
        tasks.cancel_scope.cancel()

    assert store.begun == ["AJ_1", "AJ_3"]


async def test_the_ghost_of_the_dead_agent_is_removed(place: Place) -> None:
    await place.caller_joins()
    await (await place.clients.join(place.server, "agent-AJ_1", agent=True)).next("join")
    await place.calls.write(place.call)

    await place.look()

    async with ServerApi(place.account) as api:
        present = await api.participants("r")
    assert [one.identity for one in present or ()] == ["caller"]


async def test_a_worker_without_a_free_slot_removes_the_ghost_so_that_others_need_not_wait_for_its_end(
    place: Place,
) -> None:
    await place.caller_joins()
    await (await place.clients.join(place.server, "agent-AJ_1", agent=True)).next("join")
    await place.calls.write(place.call)
    bench = Bench()
    bench.start_job("AJ_7")
    bench.give(DrainRequested())

    async with ServerApi(place.account) as api:
        await place.rescue(api, status=bench.supervisor.status).look()
        present = await api.participants("r")

    assert [one.identity for one in present or ()] == ["caller"]
    assert await place.owners() == [place.call.owner]


async def test_a_call_whose_caller_has_gone_is_forgotten(place: Place) -> None:
    await (await place.clients.join(place.server, "agent-AJ_1", agent=True)).next("join")
    await place.calls.write(place.call)
    await place.calls.write(replace(place.call, lease="AJ_2", owner=dead_owner("AJ_2"), room="closed"))

    assert await place.look() == ()
    assert await place.owners() == []


async def test_a_call_with_one_participant_is_dispatched_again_for_that_one_or_forgotten(place: Place) -> None:
    await place.caller_joins()
    for lease, whom in (("AJ_1", "caller"), ("AJ_2", "ann")):
        call = replace(place.call, lease=lease, owner=dead_owner(lease), participant=whom)
        await place.calls.write(call)

    (made,) = await place.look()

    assert made.resumes == "AJ_1"
    assert await place.owners() == [rescuer()]
    assert place.claimed == ["AJ_1 with caller"]


async def test_a_call_of_another_machine_without_a_caller_is_forgotten_a_day_after_its_last_turn(place: Place) -> None:
    now = LoopClock().wall()
    hour = 3600.0
    for lease, written_at in (("AJ_1", now - 23 * hour), ("AJ_2", now - 25 * hour)):
        call = replace(place.call, lease=lease, owner=f"elsewhere/7/0/{lease}", written_at=written_at)
        await place.calls.write(call)

    assert await place.look() == ()
    assert await place.owners() == ["elsewhere/7/0/AJ_1"]


@pytest.mark.parametrize(
    "change",
    [{"url": "ws://elsewhere:7880"}, {"agent_name": "cook"}, {"owner": owner_of_job("AJ_1")}],
    ids=["another server", "another agent", "a running process"],
)
async def test_a_call_that_is_not_lost_here_is_left_alone(place: Place, change: dict[str, str]) -> None:
    await place.caller_joins()
    call = replace(place.call, **change)  # type: ignore[arg-type]  # texts
    await place.calls.write(call)

    assert await place.look() == ()
    assert await place.owners() == [call.owner]


async def test_a_call_that_no_job_took_is_dispatched_again_until_its_limit(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    await place.caller_joins()
    for count in range(3):
        await place.calls.write(replace(place.call, owner=rescuer(), dispatched=count, written_at=0.0))
        assert len(await place.look()) == count + 1

    await place.calls.write(replace(place.call, owner=rescuer(), dispatched=3, written_at=0.0))
    assert len(await place.look()) == 3
    assert await place.owners() == []
    assert "was dispatched again 3 times and is given up" in caplog.text


async def test_a_server_that_does_not_answer_leaves_the_call_for_later(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    await place.caller_joins()
    await place.calls.write(place.call)
    caplog.set_level(logging.ERROR)
    async with ServerApi(replace(place.account, api_secret="wrong" * 8)) as api:
        await place.rescue(api).look()

    assert "The call in room r could not be dispatched again" in caplog.text
    assert await place.owners() == [place.call.owner]


async def test_a_call_that_the_server_refused_to_dispatch_is_tried_at_the_next_look_with_a_free_slot(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR)
    await place.caller_joins()
    await place.calls.write(place.call)
    bench = Bench(max_jobs=1)
    async with RefusesAtFirst(place.account) as api:
        rescue = place.rescue(api, status=bench.supervisor.status)
        await rescue.look()
        await rescue.look()
        assert caplog.text.count("The call in room r could not be dispatched again: WorkerError: busy") == 1
        api.is_refusing = False
        bench.start_job("AJ_7")
        await rescue.look()
        assert await place.resumed() == []
        bench.give(JobEnded(job_id="AJ_7"))

        await rescue.look()

        assert [one.resumes for one in await api.dispatches("r") if one.resumes] == ["AJ_1"]


async def test_a_store_that_hangs_while_a_call_is_claimed_does_not_hold_up_the_next_look(
    place: Place, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(rescue_module, "STORE_LIMIT", PATIENT)
    await place.caller_joins()
    await place.calls.write(place.call)
    store = HangsOnce(place.path)
    async with ServerApi(place.account) as api:
        rescue = place.rescue(api, store)
        await rescue.look()
        assert "The record of the call in room r: TimeoutError" in caplog.text

        await rescue.look()

        assert [one.resumes for one in await api.dispatches("r") if one.resumes] == ["AJ_1"]


async def test_a_file_that_cannot_be_read_is_one_line_and_no_end(
    place: Place, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "calls.db").write_bytes(b"no database, but long enough to be read as one" * 100)
    async with ServerApi(place.account) as api:
        rescue = place.rescue(api)
        await rescue.look()
        await rescue.look()

    assert caplog.text.count("The records of running calls cannot be read") == 1


async def test_a_worker_starts_with_a_file_of_another_version_such_as_that_of_a_later_release(
    place: Place, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "later.db"
    with closing(sqlite3.connect(path)) as file:
        file.execute("PRAGMA user_version = 99")
    async with ServerApi(place.account) as api:
        rescue = place.rescue(api, SqliteStore(path))
        await rescue.check()
        await rescue.look()
        await rescue.look()
        (line,) = [record for record in caplog.records if record.levelno == logging.ERROR]
        assert "got version 99; take another file" in line.getMessage()


async def test_a_call_of_a_lost_machine_is_continued_when_its_dispatch_is_healed(place: Place) -> None:
    await place.caller_joins()
    call = replace(place.call, owner="elsewhere/7/1/AJ_1")
    await place.calls.write(call)
    wanted = NewDispatch(room="r", agent_name="host", heals="AD_1")

    async with ServerApi(place.account) as api:
        rescue = place.rescue(api)
        await rescue.look()
        assert await place.owners() == [call.owner]
        assert await rescue.recall(wanted) == replace(wanted, resumes="AJ_1")
        assert await rescue.recall(replace(wanted, heals="AD_7")) == replace(wanted, heals="AD_7")

    assert (await place.owners(), place.claimed) == ([rescuer()], ["AJ_1"])
