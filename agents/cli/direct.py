"""Direct jobs: an agent joins one named room without dispatch, by a token that we make ourselves."""

from __future__ import annotations

from dataclasses import replace

import anyio

from vivavoce.agents.cli.demo.place import Place
from vivavoce.agents.job import JobContext, JobInfo
from vivavoce.agents.server_access import Credentials
from vivavoce.agents.session_watch import SessionWatch, watch_scope
from vivavoce.agents.worker.agent_token import agent_token
from vivavoce.agents.worker.effects import JobEnded
from vivavoce.agents.worker.executors.task import TaskExecutor
from vivavoce.agents.worker.protocol import JobAssigned
from vivavoce.agents.worker.worker import Worker, shared_parts
from vivavoce.pipelines.core.ids import new_id


class DirectJob:
    """One job of a worker in a named room, run here and now.

    Args:
        worker: Supplies entrypoint, options and prewarmed components; the worker itself does not run.
        place: The room's server.
        watch: Follows the job's sessions.
    """

    def __init__(self, worker: Worker, place: Place, watch: SessionWatch) -> None:
        self._worker = worker
        self._place = place
        self._watch = watch
        options = replace(
            worker.options,
            url=place.url,
            api_key=place.api_key,
            api_secret=place.api_secret,
            crash_safety=None,  # no worker runs that could dispatch the call again
        )
        self._executor = TaskExecutor(self._entrypoint, options, worker.shared)
        self._id = new_id("job")
        self._reason = ""
        self._is_started = False

    async def run(self, room: str, identity: str, metadata: str = "") -> str:
        """Run the job to its end and return its error, empty if it succeeded."""
        await shared_parts(self._worker).warm()
        job = JobInfo(id=self._id, room=room, agent_name=self._worker.agent_name, metadata=metadata)
        account = Credentials(url=self._place.url, api_key=self._place.api_key, api_secret=self._place.api_secret)
        token = agent_token(account, room, identity, self._worker.options.permissions)
        over = anyio.Event()
        errors: list[str] = []

        def ended(job: JobEnded) -> None:
            errors.append(job.error)
            over.set()

        async with anyio.create_task_group() as tasks:
            await tasks.start(self._executor.run, ended)
            self._executor.start(JobAssigned(job=job, url="", token=token), self._place.url)
            self._is_started = True
            if self._reason:
                self.end(self._reason)
            await over.wait()
            tasks.cancel_scope.cancel()
        return errors[0]

    def end(self, reason: str) -> None:
        """End the job; a second call cancels its entrypoint at once."""
        is_forced, self._reason = bool(self._reason) and self._is_started, reason
        if self._is_started:
            self._executor.end(self._id, reason, is_forced=is_forced)

    async def _entrypoint(self, context: JobContext) -> None:
        with watch_scope(self._watch):
            await self._worker.entrypoint(context)
