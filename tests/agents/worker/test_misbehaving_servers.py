"""A worker at servers that misbehave: it goes on, or ends with a reason that says what to do."""

from __future__ import annotations

import asyncio
import logging
import re

import anyio
import pytest
from livekit.protocol import agent as wire

from kit.e2e.working import Working
from kit.idle_job import keep_job
from kit.servers.agent_server import AgentServer
from kit.servers.misbehaving_server import Conversation, MisbehavingServer
from vivavoce.agents.job import JobContext
from vivavoce.agents.worker import registration
from vivavoce.agents.worker.executors.options import TaskExecution
from vivavoce.agents.worker.options import WorkerOptions
from vivavoce.agents.worker.worker import Worker
from vivavoce.pipelines.core.errors import WorkerError

LIMIT = 60.0


def _worker(server: MisbehavingServer | AgentServer, started: list[str] | None = None, **options: object) -> Worker:
    async def entrypoint(ctx: JobContext) -> None:
        if started is not None:
            started.append(ctx.job.id)
        keep_job()

    account = {"url": server.url, "api_key": server.api_key, "api_secret": server.api_secret}
    given = {**account, "executor": TaskExecution(), **options}
    return Worker(entrypoint, options=WorkerOptions(**given))  # type: ignore[arg-type]


async def _works(conversation: Conversation, answered: asyncio.Event) -> None:
    """Register the worker, offer a job, and wait for its answer."""
    await conversation.register()
    await _works_on(conversation, answered)


async def _works_on(conversation: Conversation, answered: asyncio.Event) -> None:
    await conversation.send(wire.ServerMessage(availability=wire.AvailabilityRequest(job=wire.Job(id="AJ_1"))))
    await conversation.read_until(lambda message: message.availability.available)
    answered.set()
    await conversation.until_closed()


async def _serves_after(first: object, reason: str, caplog: pytest.LogCaptureFixture) -> None:
    """Check that a worker serves on its second connection, and logs why the first one ended."""
    answered = asyncio.Event()

    async def then(conversation: Conversation) -> None:
        await _works(conversation, answered)

    caplog.set_level(logging.WARNING)
    async with MisbehavingServer(first, then) as server, Working(_worker(server)):  # type: ignore[arg-type]
        async with asyncio.timeout(LIMIT):
            await answered.wait()
    assert re.search(reason, caplog.text), caplog.text


async def test_a_server_that_never_answers_the_registration_is_left_and_tried_again(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registration, "REGISTER_LIMIT", 0.3)

    async def never_answer(conversation: Conversation) -> None:
        await conversation.until_closed()
        monkeypatch.setattr(registration, "REGISTER_LIMIT", 60.0)  # for the connection that is served

    await _serves_after(never_answer, "the server did not register the worker within 0.3 s", caplog)


async def test_a_server_that_never_registers_ends_the_worker_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registration, "REGISTER_LIMIT", 0.3)

    async with MisbehavingServer(Conversation.until_closed) as server:
        with pytest.raises(WorkerError, match=r"did not register the worker within 0\.3 s; see its log \(tried 1"):
            await _worker(server, max_retry=0).run()


async def test_a_server_that_takes_the_connection_and_says_nothing_at_all_is_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(registration, "REGISTER_LIMIT", 0.3)
    held: list[asyncio.StreamWriter] = []

    async def say_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        held.append(writer)

    silent = await asyncio.start_server(say_nothing, "127.0.0.1", 0)
    url = f"ws://127.0.0.1:{silent.sockets[0].getsockname()[1]}"
    options = WorkerOptions(url=url, api_key="k", api_secret="s" * 32, max_retry=0, executor=TaskExecution())

    async def entrypoint(ctx: JobContext) -> None:
        raise AssertionError("no job can come")

    try:
        with anyio.fail_after(LIMIT), pytest.raises(WorkerError, match="did not register the worker within"):
            await Worker(entrypoint, options=options).run()
    finally:
        for writer in held:
            writer.close()
        silent.close()
        await silent.wait_closed()


async def test_a_server_that_hangs_up_after_the_upgrade_ends_the_worker_with_its_words() -> None:
    async def hang_up(conversation: Conversation) -> None:
        await conversation.socket.close(code=1008, message=b"no agents here")

    async with MisbehavingServer(hang_up) as server:
        with pytest.raises(
            WorkerError, match=r"hung up before it had registered the worker \(.*code 1008, 'no agents here'\)"
        ):
            await _worker(server, max_retry=0).run()


@pytest.mark.parametrize("garbage", [b"\xff\xff\xff", b"\x0a\xff", "not JSON", '{"register": 3}'])
async def test_a_first_frame_of_garbage_is_not_taken_for_a_registration(
    garbage: bytes | str, caplog: pytest.LogCaptureFixture
) -> None:
    async def speak_garbage(conversation: Conversation) -> None:
        if isinstance(garbage, str):
            await conversation.socket.send_str(garbage)
        else:
            await conversation.socket.send_bytes(garbage)
        await conversation.until_closed()

    await _serves_after(speak_garbage, "expected a ServerMessage of LiveKit's agent protocol", caplog)


async def test_an_offer_before_the_registration_is_no_registration(caplog: pytest.LogCaptureFixture) -> None:
    async def offer_first(conversation: Conversation) -> None:
        await conversation.send(wire.ServerMessage(availability=wire.AvailabilityRequest(job=wire.Job(id="AJ_0"))))
        await conversation.until_closed()

    await _serves_after(offer_first, "the server's first message was no register reply", caplog)


async def test_garbage_in_the_middle_costs_the_connection_and_no_job(caplog: pytest.LogCaptureFixture) -> None:
    migrated = asyncio.Event()

    async def garbage_later(conversation: Conversation) -> None:
        await conversation.register()
        job = wire.Job(id="AJ_1")
        await conversation.send(wire.ServerMessage(availability=wire.AvailabilityRequest(job=job)))
        await conversation.read_until(lambda message: message.availability.available)
        await conversation.send(wire.ServerMessage(assignment=wire.JobAssignment(job=job, token="t")))
        await conversation.read_until(lambda message: message.update_job.status == wire.JS_RUNNING)
        await conversation.socket.send_bytes(b"\xff\xff\xff")
        await conversation.until_closed()

    async def next_one(conversation: Conversation) -> None:
        await conversation.register()
        moved = await conversation.read_until(lambda message: message.HasField("migrate_job"))
        assert list(moved.migrate_job.job_ids) == ["AJ_1"]
        migrated.set()
        await conversation.until_closed()

    async with MisbehavingServer(garbage_later, next_one) as server, Working(_worker(server)) as working:
        async with asyncio.timeout(LIMIT):
            await migrated.wait()
        status = working.worker.status
        assert status is not None
        assert [job.id for job in status.active_jobs] == ["AJ_1"]


async def test_a_slow_server_is_waited_for() -> None:
    answered = asyncio.Event()

    async def slow(conversation: Conversation) -> None:
        await conversation.read()
        await anyio.sleep(0.3)
        await conversation.send(wire.ServerMessage(register=wire.RegisterWorkerResponse(worker_id="AW_1")))
        await conversation.send(wire.ServerMessage(availability=wire.AvailabilityRequest(job=wire.Job(id="AJ_1"))))
        await conversation.read_until(lambda message: message.availability.available)
        answered.set()
        await conversation.until_closed()

    async with MisbehavingServer(slow) as server, Working(_worker(server)):
        async with asyncio.timeout(LIMIT):
            await answered.wait()
        assert server.connections == 1


async def test_a_worker_whose_token_is_refused_later_tries_again_and_serves() -> None:
    answered = asyncio.Event()

    async def lose(conversation: Conversation) -> None:
        await conversation.register()

    async def then(conversation: Conversation) -> None:
        await _works(conversation, answered)

    async with MisbehavingServer(lose, 401, then) as server, Working(_worker(server)):
        async with asyncio.timeout(LIMIT):
            await answered.wait()
        assert server.connections == 3


async def test_a_worker_whose_token_is_refused_at_first_ends_and_says_what_to_check() -> None:
    async with MisbehavingServer(401) as server:
        with pytest.raises(WorkerError, match="refused API key 'devkey' .* and the clocks of both machines right"):
            await _worker(server).run()


async def test_a_server_that_answers_with_a_web_page_is_named_as_none() -> None:
    async with MisbehavingServer(200) as server:
        with pytest.raises(WorkerError, match="answered with status 200, not with a websocket: is it a LiveKit server"):
            await _worker(server, max_retry=0).run()


@pytest.mark.parametrize("answer", [b"<html>a page for every path</html>", b"\xff\xff\xff"])
async def test_a_server_whose_api_answers_garbage_keeps_its_worker(
    answer: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    was_logged, answered = asyncio.Event(), asyncio.Event()

    async def offer_then(conversation: Conversation) -> None:
        await conversation.register()
        await was_logged.wait()
        await _works_on(conversation, answered)

    async with MisbehavingServer(offer_then, api=answer) as server, Working(_worker(server)):
        async with asyncio.timeout(LIMIT):
            words = "answered ListRooms with something else than a LiveKit server does (DecodeError)"
            while words not in caplog.text:  # noqa: ASYNC110 - a log has no event
                await anyio.sleep(0.02)
            was_logged.set()
            await answered.wait()


# Assignments


async def test_a_job_assigned_twice_runs_once() -> None:
    started: list[str] = []
    async with AgentServer() as server, Working(_worker(server, started)):
        await server.start("AJ_1")
        await server.assign("AJ_1")
        await server.assign("AJ_1")
        await server.start("AJ_2")
        await server.heard(lambda m: m.update_job.job_id == "AJ_2")
        await server.terminate("AJ_1")
        await server.ended("AJ_1")
        await server.assign("AJ_1")
        await server.start("AJ_3")
        await server.heard(lambda m: m.update_job.job_id == "AJ_3")

        ends = [m for m in server.messages if m.update_job.job_id == "AJ_1" and m.update_job.status == wire.JS_SUCCESS]
    assert started == ["AJ_1", "AJ_2", "AJ_3"]
    assert len(ends) == 1


async def test_an_assignment_of_a_rejected_job_starts_nothing_and_is_reported_failed() -> None:
    started: list[str] = []
    async with AgentServer() as server, Working(_worker(server, started, max_jobs=1)):
        await server.start("AJ_1")
        assert not (await server.offer("AJ_2")).available
        await server.assign("AJ_2")

        report = await server.ended("AJ_2")

    assert report.status == wire.JS_FAILED
    assert report.error == "assigned to this worker, but this worker has rejected it"
    assert started == ["AJ_1"]


async def test_an_assignment_that_was_never_offered_runs_in_a_free_slot() -> None:
    started: list[str] = []
    async with AgentServer() as server, Working(_worker(server, started)):
        await server.assign("AJ_1")
        await server.heard(lambda m: m.update_job.status == wire.JS_RUNNING)
        await server.terminate("AJ_1")
        await server.ended("AJ_1")

    assert started == ["AJ_1"]


async def test_words_about_unknown_jobs_change_nothing() -> None:
    async with AgentServer() as server, Working(_worker(server)):
        await server.terminate("AJ_unknown")
        await server.send(wire.ServerMessage(register=wire.RegisterWorkerResponse(worker_id="AW_2")))

        assert (await server.offer("AJ_1")).available
