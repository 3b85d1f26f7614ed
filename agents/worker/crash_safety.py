"""CrashSafety: the option of a worker whose calls survive the death of their processes."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

import anyio

from vivavoce.agents.job import JobInfo
from vivavoce.agents.memory.calls_in_store import CallsInStore, RunningCall
from vivavoce.agents.memory.stores.sqlite import SqliteStore
from vivavoce.agents.memory.stores.store import SessionStore
from vivavoce.agents.worker.owner import owner_of_job
from vivavoce.pipelines.core.checks import check_flag, check_text, check_whole, shown
from vivavoce.pipelines.core.errors import ConfigurationError, describe

logger = logging.getLogger(__name__)

STORE_CLOSE_LIMIT = 2.0
"""Seconds for closing the store."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CrashSafety:
    """How a worker keeps its calls: if a call's process dies, the call is dispatched again and continues.

    Each option: docs/options.md.
    """

    store: SessionStore | None = None
    """The store of running calls; None for `SqliteStore()`, a file in the user's state folder that only its owner may
    read. It holds the words of running conversations; the end of a call removes them. With a `RedisStore`, workers of
    other machines continue the calls. The worker closes it; a session's memory may use it too.
    """
    sentence: str = field(default="", repr=False)
    """The agent's first words when it continues a call after a crash; "" for nothing. If a turn of the caller has no
    answer yet, that answer comes instead.
    """
    resumes: bool = True
    """Whether `session.start()` continues the conversation by itself. If False, the application decides:
    `JobContext.resume_from` has the conversation.
    """
    max_dispatches: int = 3
    """The most times that one call is dispatched again."""
    calls: CallsInStore = field(init=False, repr=False, compare=False)
    """The running calls in the store."""

    def __post_init__(self) -> None:
        if self.store is not None and not isinstance(self.store, SessionStore):
            raise ConfigurationError(
                f"store must be a SessionStore or None, got {shown(self.store)}; RedisStore(url) stands in "
                "place of StoreCheckpoints(RedisStore(url)), and SqliteStore(path) in place of SqliteCheckpoints(path)"
            )
        check_text("sentence", self.sentence)
        check_flag("resumes", self.resumes)
        check_whole("max_dispatches", self.max_dispatches, at_least=0)
        object.__setattr__(self, "calls", CallsInStore(SqliteStore() if self.store is None else self.store))


def first_record(job: JobInfo, url: str) -> RunningCall:
    """Return the record of a job's call, owned by the job in this process; `url` is the worker's server."""
    return RunningCall(
        lease=job.resumes or job.id,
        owner=owner_of_job(job.id),
        url=url,
        room=job.room,
        agent_name=job.agent_name,
        dispatch_id=job.heals or job.dispatch_id,
        metadata=job.metadata,
        attributes=job.attributes,
        participant=job.participant_identity,
    )


async def close_store(safety: CrashSafety | None) -> None:
    """Close the store at the end of a process that used it. Errors are ignored, and the wait is limited."""
    if safety is None:
        return
    try:
        with anyio.fail_after(STORE_CLOSE_LIMIT):
            await safety.calls.aclose()
    except Exception as error:  # noqa: BLE001 - a store is foreign code
        logger.error("The store of running calls could not be closed: %s", describe(error))
