"""Direct jobs: an agent joins one named room without dispatch, by a token that we make ourselves."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import anyio

from vivavoce.agents.cli.demo.place import Place
from vivavoce.agents.job import JobInfo, SessionWatch, watch_scope
from vivavoce.agents.worker.executor import TaskExecutor
from vivavoce.agents.worker.job import JobContext
from vivavoce.agents.worker.options import AgentPermissions
from vivavoce.agents.worker.protocol import JobAssigned
from vivavoce.agents.worker.worker import Worker
from vivavoce.pipelines.core.ids import new_id

TOKEN_HOURS = 6


def agent_token(place: Place, room: str, identity: str, permissions: AgentPermissions) -> str:
    """Return a token with which `identity` joins `room` as an agent, like the token of a dispatched job."""
    from livekit import api

    grants = api.VideoGrants(
        room_join=True,
        room=room,
        agent=True,
        can_publish=permissions.can_publish,
        can_subscribe=permissions.can_subscribe,
        can_publish_data=permissions.can_publish_data,
        can_update_own_metadata=permissions.can_update_metadata,
        hidden=permissions.hidden,
    )
    token = api.AccessToken(place.api_key, place.api_secret).with_identity(identity).with_kind("agent")
    return token.with_ttl(timedelta(hours=TOKEN_HOURS)).with_grants(grants).to_jwt()


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
        options = replace(worker.options, url=place.url, api_key=place.api_key, api_secret=place.api_secret)
        self._executor = TaskExecutor(self._entrypoint, options, worker.shared)
        self._id = new_id("job")
        self._reason = ""
        self._is_started = False

    async def run(self, room: str, identity: str, metadata: str = "") -> str:
        """Run the job to its end and return its error, empty if it succeeded."""
        await self._worker.prewarm()
        job = JobInfo(id=self._id, room=room, agent_name=self._worker.agent_name, metadata=metadata)
        token = agent_token(self._place, room, identity, self._worker.options.permissions)
        over = anyio.Event()
        errors: list[str] = []

        def ended(job_id: str, error: str) -> None:
            errors.append(error)
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
