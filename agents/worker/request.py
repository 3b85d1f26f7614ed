"""A job offered to the worker, for the user's request handler: accept or reject."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from vivavoce.agents.job import JobInfo
from vivavoce.pipelines.core.checks import check_flag, check_text, shown
from vivavoce.pipelines.core.errors import ConfigurationError, WorkerError


@dataclass(frozen=True, slots=True, kw_only=True)
class Acceptance:
    """The job is taken; empty fields are filled by the worker."""

    identity: str = ""
    name: str = ""
    metadata: str = field(default="", repr=False)
    attributes: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejection:
    """The job is refused; `terminate` ends it instead of passing it to the next worker."""

    terminate: bool = False


Decision = Acceptance | Rejection


class JobRequest:
    """An offered job. Call `accept()` or `reject()` once; a handler that does neither, or raises, rejects the job."""

    def __init__(self, job: JobInfo) -> None:
        self._job = job
        self._decision: Decision | None = None

    @property
    def job(self) -> JobInfo:
        """Facts of the job, as the server sent them."""
        return self._job

    @property
    def decision(self) -> Decision | None:
        """The handler's decision; None before it."""
        return self._decision

    def accept(
        self, *, identity: str = "", name: str = "", metadata: str = "", attributes: Mapping[str, str] | None = None
    ) -> None:
        """Take the job and join its room as this participant.

        Raises:
            ConfigurationError: An argument has the wrong type.
            WorkerError: The handler has decided already.
        """
        for label, text in (("identity", identity), ("name", name), ("metadata", metadata)):
            check_text(label, text)
        given = {} if attributes is None else attributes
        is_text = isinstance(given, Mapping) and all(isinstance(one, str) for pair in given.items() for one in pair)
        if not is_text:
            raise ConfigurationError(f"attributes must be a mapping of texts, got {shown(attributes)}")
        self._decide(Acceptance(identity=identity, name=name, metadata=metadata, attributes=dict(given)))

    def reject(self, *, terminate: bool = False) -> None:
        """Leave the job to the next worker; `terminate` ends the job instead.

        Raises:
            ConfigurationError: `terminate` is no bool.
            WorkerError: The handler has decided already.
        """
        check_flag("terminate", terminate)
        self._decide(Rejection(terminate=terminate))

    def _decide(self, decision: Decision) -> None:
        if self._decision is not None:
            raise WorkerError(f"job {self._job.id} is decided already: {self._decision!r}; accept or reject it once")
        self._decision = decision
