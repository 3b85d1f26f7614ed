"""The worker: takes jobs from a LiveKit server over its agent protocol and runs them.

`protocol` and `supervisor` (with `reports`) are pure: messages to and from bytes, one input in and effects out.
`server` and `connection` move bytes; `executor`, `run` and `job` run jobs, as tasks of this process today and behind a
port that later holds processes. `worker` is the face, `process` owns signals and heap where the worker is everything.
"""

from __future__ import annotations

from vivavoce.agents.worker.effects import WorkerStatus
from vivavoce.agents.worker.executor import Entrypoint, JobExecutor, TaskExecutor
from vivavoce.agents.worker.job import JobContext, JobInfo, get_job_context
from vivavoce.agents.worker.options import AgentPermissions, WorkerOptions
from vivavoce.agents.worker.process import run_worker
from vivavoce.agents.worker.request import JobRequest
from vivavoce.agents.worker.worker import Worker

__all__ = [
    "AgentPermissions",
    "Entrypoint",
    "JobContext",
    "JobExecutor",
    "JobInfo",
    "JobRequest",
    "TaskExecutor",
    "Worker",
    "WorkerOptions",
    "WorkerStatus",
    "get_job_context",
    "run_worker",
]
