"""Options of a worker, the agent's permissions in its rooms, and the server's credentials."""

from __future__ import annotations

import os
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, get_args
from urllib.parse import urlsplit, urlunsplit

from vivavoce.agents.job import JobType
from vivavoce.agents.server_access import Credentials
from vivavoce.agents.telemetry.options import TelemetryOptions
from vivavoce.agents.telemetry.telemetry import Telemetry
from vivavoce.agents.worker.crash_safety import CrashSafety
from vivavoce.agents.worker.executors.options import ProcessExecution, TaskExecution
from vivavoce.pipelines.core.checks import (
    check_choice,
    check_flag,
    check_function,
    check_instance,
    check_number,
    check_port,
    check_text,
    check_whole,
    shown,
)
from vivavoce.pipelines.core.errors import ConfigurationError

if TYPE_CHECKING:
    from vivavoce.agents.worker.request import JobRequest


NOT_IN_URLS = re.compile(r"""[\s\x00-\x1f\x7f<>"{}|\\^`]""")
"""Characters that no URL contains; spaces come from copying."""

LABEL = 63
"""Most characters of a host's part between two dots (RFC 1035, section 2.3.4)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentPermissions:
    """Permissions of the agent in the rooms that it joins."""

    can_publish: bool = True
    can_subscribe: bool = True
    can_publish_data: bool = True
    can_update_metadata: bool = True
    """Its own metadata and attributes; `lk.agent.state` needs it."""
    hidden: bool = False
    """Whether other participants do not see it; a hidden agent cannot be heard."""

    def __post_init__(self) -> None:
        for option in fields(self):
            check_flag(option.name, getattr(self, option.name))


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerOptions:
    """Options of a worker; all durations are seconds.

    Each option: docs/options.md.
    """

    url: str | None = None
    """The LiveKit server, `ws://…` or `wss://…`; None: `LIVEKIT_URL`."""
    api_key: str | None = None
    """None: `LIVEKIT_API_KEY`."""
    api_secret: str | None = field(default=None, repr=False)
    """None: `LIVEKIT_API_SECRET`."""
    max_jobs: int = 10
    """Maximum number of jobs at the same time; other workers take further jobs."""
    job_type: JobType = "room"
    """The thing that a job is made for: `"room"`, one for each room; `"publisher"`, one for each participant that
    publishes a track; `"participant"`, one for each participant that joins. Agents themselves get none.
    """
    permissions: AgentPermissions = AgentPermissions()
    """Permissions of the agent in its rooms."""
    identity: str | None = None
    """The agent's identity in a room, with `{job_id}` and `{room}` replaced; None: `agent-<job id>`."""
    executor: ProcessExecution | TaskExecution = ProcessExecution()
    """Where jobs run: in processes of their own, many in each, or as tasks of the worker's own process."""
    prewarm: Callable[[dict[str, Any]], None] | None = None
    """Run once in each process that runs jobs, in a thread, before its first job; fills `JobContext.shared` (models and
    the like).
    """
    on_request: Callable[[JobRequest], Awaitable[None]] | None = None
    """Accepts or rejects each offered job; None: the worker accepts every job at once."""
    request_timeout: float = 1.0
    """Limit of `on_request`; a server waits 3 s in all, then offers the job to no other worker."""
    load: Callable[[], float] | None = None
    """Returns the worker's load, 0 to 1; called every 2.5 s on the event loop. Servers prefer workers with less. None:
    the largest of jobs per `max_jobs`, the share of the CPU and of the memory that the worker may use (its control
    group's limits count), and the delay of its event loops, 0.2 s being a load of 1.
    """
    max_load: float | None = None
    """Load, 0 to 1, from which the worker takes no more jobs; jobs per `max_jobs` do not count for it. None: only
    `max_jobs` limits it. In production 0.8 keeps its calls fluent, if there are workers or an autoscaler for the
    others.
    """
    max_retry: int = 16
    """Failed connections in a row after which the worker gives up."""
    drain_timeout: float = 1800.0
    """How long running jobs may continue when the worker is asked to end."""
    entrypoint_timeout: float = 15.0
    """How long an entrypoint may continue after its job has ended."""
    job_close_timeout: float = 10.0
    """Limit of each step that closes a job: its sessions, its shutdown callbacks, leaving its room."""
    block_limit: float | None = 1.0
    """Seconds for which code may block the event loop of a process, and so all its calls, before the code's stack is
    logged and noted on the spans of the process's jobs; None: no watch.
    """
    crash_safety: CrashSafety | None = field(default_factory=CrashSafety)
    """How running calls are kept, so that a call goes on after the death of its process; None: they are not kept."""
    healing: bool = True
    """Whether the worker looks every 2 s for rooms with a caller whose dispatch of its name was lost, and has an agent
    sent there; only for jobs of the type `"room"`. The same in all workers of a name: one without it does not delete
    the dispatch of a call that its agent has ended, which the others would take for a lost one.
    """
    telemetry: TelemetryOptions | Telemetry | None = None
    """Destination of its jobs' traces and metrics, one sender for all; None: the endpoint in
    `OTEL_EXPORTER_OTLP_ENDPOINT`.
    """
    health_port: int | None = None
    """Port of the HTTP endpoint (0: any free one): `/` liveness, `/ready` readiness, `/worker` the state as JSON,
    `/metrics` for Prometheus with the extra `prometheus`. None: no endpoint.
    """
    health_host: str = "127.0.0.1"
    """Address of the health endpoint; `0.0.0.0` for probes from other machines."""

    def __post_init__(self) -> None:
        for name in ("url", "api_key", "api_secret", "identity"):
            given = getattr(self, name)
            if given is not None and not isinstance(given, str):  # not shown: it may hold a secret
                raise ConfigurationError(f"need {name} as a str or None, got {type(given).__name__}")
        check_whole("max_jobs", self.max_jobs, at_least=1)
        check_whole("max_retry", self.max_retry, at_least=0)
        check_choice("job_type", self.job_type, get_args(JobType))
        check_instance("permissions", self.permissions, AgentPermissions)
        if isinstance(self.executor, ProcessExecution):
            self.executor.check_jobs(self.max_jobs)
        elif not isinstance(self.executor, TaskExecution):
            raise ConfigurationError(
                f"executor must be ProcessExecution(…) or TaskExecution(…), got {shown(self.executor)}"
            )
        for name in ("prewarm", "on_request", "load"):
            check_function(name, getattr(self, name), or_none=True)
        check_number("block_limit", self.block_limit, above=0, unit="s", or_none=True)
        check_number("max_load", self.max_load, above=0, or_none=True, remedy="a share, such as 0.8")
        if self.max_load is not None and self.max_load > 1:  # no load reaches it: it would limit nothing
            raise ConfigurationError(
                f"need 0 < max_load <= 1, a share of the load, or None for no such limit, got {shown(self.max_load)}"
            )
        for name in ("drain_timeout", "entrypoint_timeout", "job_close_timeout", "request_timeout"):
            check_number(name, getattr(self, name), at_least=0, unit="s")
        check_flag("healing", self.healing)
        check_instance("crash_safety", self.crash_safety, CrashSafety, or_none=True)
        check_port("health_port", self.health_port, or_none=True)
        check_text("health_host", self.health_host)
        if self.telemetry is not None and not isinstance(self.telemetry, TelemetryOptions | Telemetry):
            raise ConfigurationError(
                f"telemetry must be TelemetryOptions(…) or Telemetry(…), got {shown(self.telemetry)}"
            )
        if not 0 < self.request_timeout <= 2.5:
            raise ConfigurationError(
                f"request_timeout must lie in 0 … 2.5 s (a LiveKit server gives up after 3 s), got "
                f"{self.request_timeout!r}"
            )


def credentials(options: WorkerOptions) -> Credentials:
    """Return the credentials from options and environment.

    Raises:
        ConfigurationError: One is missing, or the URL is malformed.
    """
    return Credentials(
        url=websocket_url(_needed("server URL", options.url, "LIVEKIT_URL", "--url", "url")),
        api_key=_needed("API key", options.api_key, "LIVEKIT_API_KEY", "--api-key", "api_key"),
        api_secret=_needed("API secret", options.api_secret, "LIVEKIT_API_SECRET", "--api-secret", "api_secret"),
    )


def api_credentials(options: WorkerOptions, url: str) -> Credentials | None:
    """Return the credentials for the API of the server at `url`, from options and environment; None if a part is
    missing.
    """
    api_key = options.api_key or os.environ.get("LIVEKIT_API_KEY", "")
    api_secret = options.api_secret or os.environ.get("LIVEKIT_API_SECRET", "")
    return Credentials(url=url, api_key=api_key, api_secret=api_secret) if url and api_key and api_secret else None


def server_url(options: WorkerOptions) -> str:
    """Return the URL of the worker's server from options and environment; empty if none is given."""
    given = os.environ.get("LIVEKIT_URL", "") if options.url is None else options.url
    return websocket_url(given) if given else ""


def websocket_url(url: str) -> str:
    """Return the server's URL with scheme ws or wss and no trailing slash.

    Raises:
        ConfigurationError: It is not the URL of a LiveKit server.
    """
    try:
        parts = urlsplit(url)
        scheme = {"http": "ws", "https": "wss"}.get(parts.scheme, parts.scheme)
        if found := NOT_IN_URLS.search(url):  # urlsplit() drops some of them silently
            wrong = f"there is {found.group()!r} in it"
        elif scheme not in ("ws", "wss"):
            wrong = f"its scheme is {parts.scheme!r}" if parts.scheme else "it has no scheme"
        elif not parts.hostname:
            wrong = "it has no host"
        elif not all(0 < len(label) <= LABEL for label in parts.hostname.removesuffix(".").split(".")):
            wrong = f"a part of its host between dots is empty or has more than {LABEL} characters"
        elif parts.port == 0:
            wrong = "its port is 0"
        else:
            return urlunsplit((scheme, parts.netloc, parts.path.rstrip("/"), "", ""))
    except ValueError as error:
        wrong = str(error)
    raise ConfigurationError(f"the LiveKit URL must look like wss://host or ws://127.0.0.1:7880, got {url!r}: {wrong}")


def _needed(what: str, option: str | None, variable: str, flag: str, name: str) -> str:
    value = os.environ.get(variable, "") if option is None else option
    if not value:
        raise ConfigurationError(
            f"a worker needs LiveKit's {what}, got none: set {variable}, pass {flag}, or WorkerOptions({name}=…)"
        )
    return value
