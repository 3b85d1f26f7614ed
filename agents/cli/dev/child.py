"""The agent's own process: `python -m vivavoce.agents.cli.dev.child`, a ChildRequest as the first line of its stdin.

It loads the app's file, takes jobs as a worker and on command, and reports events on stdout. It ends on command and at
the end of its stdin, so it never outlives its parent.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import anyio
from anyio.abc import TaskGroup

from vivavoce.agents.cli.app_file import App, load_app
from vivavoce.agents.cli.dev.stage import Stage
from vivavoce.agents.cli.dev.wire import Message, Speaker
from vivavoce.agents.cli.running import configure_logging, ignore_short_secrets
from vivavoce.agents.job import JobInfo
from vivavoce.agents.worker.effects import JobEnded
from vivavoce.agents.worker.executors.options import TaskExecution
from vivavoce.agents.worker.executors.task import TaskExecutor
from vivavoce.agents.worker.protocol import JobAssigned
from vivavoce.agents.worker.worker import Worker, shared_parts
from vivavoce.pipelines.core.errors import VoiceError, describe, first_error, own_traceback
from vivavoce.pipelines.core.process_end import run_process

ENTRYPOINT_LIMIT = 1.0
"""Seconds for an entrypoint to return when its job has ended; a developer does not want to wait longer."""
JOBS_END_LIMIT = 4.0
"""Seconds for the jobs that were taken over to end."""
STATUS_FAILED = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildRequest:
    """The app to run, and its server."""

    file: str
    url: str
    api_key: str
    api_secret: str = field(repr=False)
    agent_name: str | None = None
    """None: as in the file."""


class Child:
    """The process's one worker and its jobs."""

    def __init__(self, request: ChildRequest, app: App, speaker: Speaker) -> None:
        self._speaker = speaker
        self._request = request
        self._note = app.note
        self._stage = Stage(app.worker.entrypoint, app.agents, speaker)
        options = app.worker.options
        self._options = replace(
            options,
            url=request.url,
            api_key=request.api_key,
            api_secret=request.api_secret,
            crash_safety=None,  # a conversation moves from process to process by itself here
            healing=False,  # and so do the agents, under names of their own
            executor=TaskExecution(),  # this process is one that `vivavoce dev` replaces
            entrypoint_timeout=min(options.entrypoint_timeout, ENTRYPOINT_LIMIT),
        )
        name = app.worker.agent_name if request.agent_name is None else request.agent_name
        self._worker = Worker(self._stage.entrypoint, agent_name=name, options=self._options)
        self._direct = TaskExecutor(self._stage.entrypoint, self._options, self._worker.shared)
        self._taken: dict[str, anyio.Event] = {}

    async def run(self, lines: asyncio.StreamReader) -> None:
        """Follow commands until one says stop.

        Raises:
            VoiceError: The worker cannot do its work.
        """
        await shared_parts(self._worker).warm()
        async with anyio.create_task_group() as tasks:
            await tasks.start(self._direct.run, self._ended)
            self._speaker.send("loaded", note=self._note)
            while line := await lines.readline():
                message: Message = json.loads(line)
                if message["is"] == "stop":
                    break
                await self._obey(message, tasks)
            await self._worker.aclose()
            await self._end_taken()
            tasks.cancel_scope.cancel()
        with anyio.CancelScope(shield=True):
            await shared_parts(self._worker).aclose()

    async def _obey(self, message: Message, tasks: TaskGroup) -> None:
        match message["is"]:
            case "register":
                await tasks.start(self._work)
                self._speaker.send("registered", agent_name=self._worker.agent_name)
            case "drain":
                self._worker.drain()
            case "take":
                job = JobInfo(**message["job"])
                self._stage.expect(message)
                self._taken[job.id] = anyio.Event()
                self._direct.start(JobAssigned(job=job, url="", token=message["token"]), self._request.url)
            case _:
                self._stage.obey(message, tasks)

    async def _work(self, *, task_status: anyio.abc.TaskStatus[None]) -> None:
        await self._worker.run(task_status=task_status)

    def _ended(self, job: JobEnded) -> None:
        self._taken.pop(job.job_id).set()

    async def _end_taken(self) -> None:
        with anyio.move_on_after(JOBS_END_LIMIT):
            for job_id in list(self._taken):
                self._direct.end(job_id, "the agent is being stopped", is_forced=False)
            for is_over in list(self._taken.values()):
                await is_over.wait()


@contextmanager
def _told(speaker: Speaker, stage: str) -> Iterator[None]:
    """Report an error and end the process."""
    try:
        yield
    except BaseExceptionGroup as group:
        speaker.send("failed", stage=stage, error=describe(first_error(group), quotes_foreign=True))
        sys.exit(STATUS_FAILED)
    except VoiceError as error:
        speaker.send("failed", stage=stage, error=str(error))
        sys.exit(STATUS_FAILED)
    except Exception as error:  # noqa: BLE001 - whatever the app raises while it loads is shown to whoever wrote it
        speaker.send("failed", stage=stage, error=own_traceback(error))
        sys.exit(STATUS_FAILED)


async def _run(speaker: Speaker) -> None:
    lines = asyncio.StreamReader(limit=1 << 26)  # a conversation is one line
    protocol = asyncio.StreamReaderProtocol(lines)
    await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, os.fdopen(os.dup(0), "rb", 0))
    request = ChildRequest(**json.loads(await lines.readline()))
    with _told(speaker, "load"):
        app = load_app(Path(request.file), has_default=True)
    with _told(speaker, "work"):
        await Child(request, app, speaker).run(lines)


def main() -> None:
    """Run the process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides: closing stdin ends this process
    speaker = Speaker()
    configure_logging(logging.WARNING)
    ignore_short_secrets()
    logging.getLogger("livekit").setLevel(logging.CRITICAL)
    anyio.run(_run, speaker)


if __name__ == "__main__":
    run_process(main)
