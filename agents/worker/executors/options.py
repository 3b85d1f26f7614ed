"""Where the jobs of a worker run: in its own process, or in processes of their own."""

from __future__ import annotations

from dataclasses import dataclass

from vivavoce.pipelines.core.checks import check_number, check_whole
from vivavoce.pipelines.core.errors import ConfigurationError


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskExecution:
    """Jobs run as tasks of the worker's own process: the entrypoint may be any function, and a crash ends all jobs.

    Each option: docs/options.md.
    """

    start_limit: float = 60.0
    """Seconds for prewarm; then the worker ends."""

    def __post_init__(self) -> None:
        check_number("start_limit", self.start_limit, above=0, unit="s")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessExecution:
    """Jobs run in processes of their own, many in each: a crash ends only the jobs of its process.

    The processes are made and warmed before the worker registers, and a lost one is replaced. Entrypoint and prewarm
    are functions at the module level of an importable module, of `__main__`, or of the file of `vivavoce start`.

    Each option: docs/options.md.
    """

    processes: int | None = None
    """Number of processes. None: as many as this machine or container has cores, or as many as `max_jobs` needs if
    `jobs_per_process` is given.
    """
    jobs_per_process: int | None = None
    """Maximum number of jobs in a process at the same time, such as 1; None: only `max_jobs` limits it."""
    memory_warning_mb: int | None = 1000
    """Megabytes of memory of one process from which on it is named in the log, once; None: never."""
    memory_limit_mb: int | None = None
    """Megabytes of memory at which a process is replaced; its jobs fail with that reason. None: no limit. Pages that
    processes share count in parts (PSS).
    """
    heartbeat_limit: float = 10.0
    """Seconds for which a process may give no sign of life, since code blocks its event loop; then the stacks of its
    threads are logged, and it is killed.
    """
    start_limit: float = 60.0
    """Seconds for a new process to load the application and to run prewarm."""
    stop_limit: float = 10.0
    """Seconds for a process to leave the rooms of its jobs when it has to end; then it is killed."""

    def __post_init__(self) -> None:
        check_whole("processes", self.processes, at_least=1, or_none=True)
        check_whole("jobs_per_process", self.jobs_per_process, at_least=1, or_none=True)
        check_whole("memory_warning_mb", self.memory_warning_mb, at_least=1, or_none=True)
        check_whole("memory_limit_mb", self.memory_limit_mb, at_least=1, or_none=True)
        check_number("heartbeat_limit", self.heartbeat_limit, at_least=5, unit="s")  # one comes every second
        check_number("start_limit", self.start_limit, above=0, unit="s")
        check_number("stop_limit", self.stop_limit, at_least=0, unit="s")

    def check_jobs(self, max_jobs: int) -> None:
        """Check that the processes can hold as many jobs as the worker takes.

        Raises:
            ConfigurationError: They cannot.
        """
        if self.processes is None or self.jobs_per_process is None:
            return
        if (room := self.processes * self.jobs_per_process) < max_jobs:
            raise ConfigurationError(
                f"max_jobs={max_jobs} needs room in the processes, got processes={self.processes} times "
                f"jobs_per_process={self.jobs_per_process}, which is {room}; set max_jobs={room}, or raise one of them"
            )
