"""The job that the running code belongs to: how the worker sets it, and how applications and sessions find it.

A context variable carries it, so every task started from an entrypoint sees the entrypoint's own job, however many run
in one process.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from vivavoce.agents.job import JobContext, JobControl
from vivavoce.agents.server_access import Credentials
from vivavoce.pipelines.core.errors import ConfigurationError

_current: ContextVar[JobControl] = ContextVar("vivavoce_job")


def get_job_context() -> JobContext:
    """Return the job that the calling code runs in.

    Raises:
        ConfigurationError: The caller does not run in a job.
    """
    return required_job().context


def required_job() -> JobControl:
    """Return the control of the job that the calling code runs in.

    Raises:
        ConfigurationError: The caller does not run in a job.
    """
    if (job := current_job()) is not None:
        return job
    raise ConfigurationError(
        "needed a job, but this code runs in none: call it from a worker's entrypoint, or pass the room "
        "(`session.start(room)`)"
    )


def current_job() -> JobControl | None:
    """Return the control of the job that the calling code runs in, if it runs in one."""
    return _current.get(None)


def server_credentials() -> Credentials | None:
    """Return the credentials for the API of the calling code's server; None if a part is missing.

    In a job they are the job's, else those of the environment.
    """
    job = current_job()
    if job is not None and job.server.credentials is not None:
        return job.server.credentials
    url, api_key, api_secret = (os.environ.get(f"LIVEKIT_{name}", "") for name in ("URL", "API_KEY", "API_SECRET"))
    return Credentials(url=url, api_key=api_key, api_secret=api_secret) if url and api_key and api_secret else None


def has_job_ended() -> bool:
    """Return whether the calling code runs in a job that has ended."""
    job = current_job()
    return job is not None and bool(job.reason)


@contextmanager
def job_scope(job: JobControl) -> Iterator[None]:
    """Make `job` the current one for this context and for the tasks started from it."""
    token = _current.set(job)
    try:
        yield
    finally:
        _current.reset(token)
