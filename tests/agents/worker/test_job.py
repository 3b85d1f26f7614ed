"""JobContext by itself: the ends of a job, without a worker and without a room."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

import anyio
import jwt
import pytest
from livekit import rtc
from livekit.api import VideoGrants

from vivavoce.agents.current_job import required_job
from vivavoce.agents.job import JobContext, JobInfo
from vivavoce.agents.memory.calls_in_store import CallsInStore
from vivavoce.agents.memory.stores.sqlite import SqliteStore
from vivavoce.agents.server_access import Credentials, ServerAccess
from vivavoce.agents.testing import run_virtual
from vivavoce.agents.worker.crash_safety import CrashSafety
from vivavoce.agents.worker.job import RoomJob
from vivavoce.agents.worker.options import WorkerOptions
from vivavoce.agents.worker.run import JobRun
from vivavoce.pipelines.core.errors import ConfigurationError, RoomError, WorkerError


async def test_a_disconnect_for_a_reason_that_the_sdk_has_no_name_for_ends_the_job() -> None:
    async with anyio.create_task_group() as tasks:
        control = RoomJob(JobInfo(id="AJ_1", room="r"), url="", token="", shared={}, tasks=tasks)
        control.context.room.emit("disconnected", 99)
        with anyio.fail_after(60):
            await control.wait_ended()
    assert control.context.reason == "room disconnected: REASON_99"


async def test_a_known_disconnect_reason_is_named() -> None:
    async with anyio.create_task_group() as tasks:
        control = RoomJob(JobInfo(id="AJ_1", room="r"), url="", token="", shared={}, tasks=tasks)
        control.context.room.emit("disconnected", rtc.DisconnectReason.ROOM_DELETED)
        with anyio.fail_after(60):
            await control.wait_ended()
    assert control.context.reason == "room disconnected: ROOM_DELETED"


@pytest.mark.parametrize("reason", ["DUPLICATE_IDENTITY", "ROOM_DELETED"])
async def test_a_job_knows_whether_another_agent_took_its_place(reason: str) -> None:
    async with anyio.create_task_group() as tasks:
        control = RoomJob(JobInfo(id="AJ_1", room="r"), url="", token="", shared={}, tasks=tasks)
        control.context.room.emit("disconnected", rtc.DisconnectReason.Value(reason))
        with anyio.fail_after(60):
            await control.wait_ended()
    assert control.is_replaced == (reason == "DUPLICATE_IDENTITY")


@pytest.mark.parametrize(
    ("reason", "is_broken"),
    [("UNKNOWN_REASON", True), ("CONNECTION_TIMEOUT", True), ("ROOM_DELETED", False), ("PARTICIPANT_REMOVED", False)],
)
def test_a_job_whose_connection_to_the_room_breaks_has_failed_and_its_record_waits_for_the_next_agent(
    tmp_path: Path, reason: str, is_broken: bool
) -> None:
    store = SqliteStore(tmp_path / "calls.db")
    kept: list[int] = []
    errors: list[str] = []

    async def entrypoint(ctx: JobContext) -> None:
        await anyio.sleep(1.0)
        ctx.room.emit("disconnected", rtc.DisconnectReason.Value(reason))

    async def main() -> None:
        options = WorkerOptions(url="ws://x", crash_safety=CrashSafety(store=store))
        async with anyio.create_task_group() as tasks:
            control = RoomJob(JobInfo(id="AJ_1", room="r"), url="ws://x", token="t", shared={}, tasks=tasks)
            run = JobRun(control, entrypoint, options, tasks)
            await run.run()
            errors.append(run.error)
            for seconds in (30.0, 60.0):
                await anyio.sleep(seconds)
                kept.append(len(await CallsInStore(store).read()))

    run_virtual(main())
    text = f"the connection to the room broke (room disconnected: {reason})"
    assert (errors, kept) == (([text], [1, 0]) if is_broken else ([""], [0, 0]))


class ToldJob(RoomJob):
    """A job that notes what its room is told."""

    told: list[str]

    async def tell_failure(self, error: str) -> None:
        self.told.append(error)


@pytest.mark.parametrize("shows", [True, False], ids=["under development", "in production"])
async def test_only_under_development_a_room_is_told_the_error_of_the_job_s_code(shows: bool) -> None:
    async def entrypoint(ctx: JobContext) -> None:
        if shows:
            required_job().show_failure()
        raise LookupError("no menu")

    async with anyio.create_task_group() as tasks:
        control = ToldJob(JobInfo(id="AJ_1", room="r"), url="ws://x", token="t", shared={}, tasks=tasks)
        control.told = []
        run = JobRun(control, entrypoint, WorkerOptions(crash_safety=None), tasks)
        await run.run()
    assert run.error == "LookupError: no menu"
    assert control.told == (["LookupError: no menu"] if shows else [])


async def run_job(entrypoint: Callable[[JobContext], Awaitable[None]], done: list[str]) -> None:
    """Run a job to its end and to that of the work that it leaves; note in between that it is over."""
    async with anyio.create_task_group() as tasks:
        control = RoomJob(JobInfo(id="AJ_1", room="r"), url="ws://x", token="t", shared={}, tasks=tasks)
        await JobRun(control, entrypoint, WorkerOptions(crash_safety=None), tasks).run()
        done.append("over")


def test_a_room_that_is_joined_after_the_end_of_its_job_is_left_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []

    async def connect(room: rtc.Room, *_: object) -> None:
        await anyio.sleep(14.5)  # joining may take 15 s; leaving has a time of its own
        done.append("joined")

    async def disconnect(room: rtc.Room) -> None:
        await anyio.sleep(1.0)
        done.append("left")

    async def entrypoint(ctx: JobContext) -> None:
        with anyio.fail_after(1.0):
            await ctx.connect()

    monkeypatch.setattr(rtc.Room, "connect", connect)
    monkeypatch.setattr(rtc.Room, "disconnect", disconnect)
    run_virtual(run_job(entrypoint, done))
    assert done == ["over", "joined", "left"], "a mute agent would keep every other one from the caller"


@pytest.mark.parametrize("then", ["raise", "return", "try again"])
def test_a_room_that_is_joined_too_late_is_left_with_the_job_or_is_that_of_the_next_try(
    monkeypatch: pytest.MonkeyPatch, then: str
) -> None:
    done: list[str] = []

    async def connect(room: rtc.Room, *_: object) -> None:
        done.append("joins")
        await anyio.sleep(20.0)
        done.append("joined")

    async def disconnect(room: rtc.Room) -> None:
        done.append("left")

    async def entrypoint(ctx: JobContext) -> None:
        try:
            await ctx.connect()
        except RoomError as error:
            done.append(str(error))
            if then == "raise":
                raise
            if then == "return":
                return
            with pytest.raises(RoomError, match="could not join"):
                await ctx.connect()
            await anyio.sleep(6.0)
            await ctx.connect()
            done.append("works")
            ctx.shutdown()

    monkeypatch.setattr(rtc.Room, "connect", connect)
    monkeypatch.setattr(rtc.Room, "disconnect", disconnect)
    run_virtual(run_job(entrypoint, done))
    begin = ["joins", "could not join room 'r' at ws://x within 15.0 s"]
    if then == "try again":
        assert done == [*begin, "joined", "works", "left", "over"]
    else:
        assert done == [*begin, "left", "over", "joined", "left"]


ACCOUNT = Credentials(url="ws://127.0.0.1:9", api_key="devkey", api_secret="secret-secret-secret-secret-secret")


def test_a_token_lets_a_participant_into_the_job_s_room_alone_for_a_while() -> None:
    access = ServerAccess(ACCOUNT, "kitchen")

    token = access.participant_token("ann", name="Ann", metadata="m", attributes={"a": "b"}, grants=None, ttl=60.0)

    claims = jwt.decode(token, ACCOUNT.api_secret, algorithms=["HS256"])
    assert (claims["sub"], claims["iss"], claims["name"], claims["metadata"]) == ("ann", "devkey", "Ann", "m")
    assert claims["attributes"] == {"a": "b"}
    assert (claims["video"]["room"], claims["video"]["roomJoin"]) == ("kitchen", True)
    assert claims["exp"] - claims["nbf"] == 60


def test_grants_for_another_room_are_refused() -> None:
    access = ServerAccess(ACCOUNT, "kitchen")

    with pytest.raises(
        ConfigurationError, match="the token is for the job's room 'kitchen', got grants for room 'bar'"
    ):
        access.participant_token("ann", name="", metadata="", attributes={}, grants=VideoGrants(room="bar"), ttl=60.0)


def test_without_a_key_the_api_and_tokens_say_what_to_set() -> None:
    access = ServerAccess(None, "kitchen")

    with pytest.raises(ConfigurationError, match="the server API needs a LiveKit server .*: set LIVEKIT_URL"):
        access.api()
    with pytest.raises(ConfigurationError, match="a token for a participant needs a LiveKit server"):
        access.participant_token("ann", name="", metadata="", attributes={}, grants=None, ttl=60.0)


async def test_the_api_is_made_once_and_closed_with_its_connections() -> None:
    access = ServerAccess(ACCOUNT, "kitchen")
    client = access.api()
    assert access.api() is client

    await access.aclose()
    await access.aclose()

    with pytest.raises(WorkerError, match="closed with its job"):
        access.api()
