"""Job reports for the server: each is kept until the connection that carried it has lived for a while.

The protocol confirms nothing, so a report that was written shortly before a connection died is sent again on the next.
"""

from __future__ import annotations

from dataclasses import dataclass

from vivavoce.agents.worker.protocol import JobStatus, UpdateJob

CONFIRM_AFTER = 20.0
"""Seconds that a connection must outlive a report; a dead one is noticed within two pings, 10 s apart."""


@dataclass(slots=True)
class _Report:
    update: UpdateJob
    sent_at: float | None = None


class JobReports:
    """The newest report of each job that may not have arrived."""

    def __init__(self) -> None:
        self._reports: dict[str, _Report] = {}

    def running(self, job_id: str) -> None:
        """The job runs."""
        self._reports[job_id] = _Report(UpdateJob(job_id=job_id, status=JobStatus.RUNNING))

    def ended(self, job_id: str, error: str) -> None:
        """The job is over; an error text means that it failed."""
        status = JobStatus.FAILED if error else JobStatus.SUCCESS
        self._reports[job_id] = _Report(UpdateJob(job_id=job_id, status=status, error=error))

    def take(self, now: float) -> list[UpdateJob]:
        """Return the reports to send now, and record that they are sent."""
        unsent = [report for report in self._reports.values() if report.sent_at is None]
        for report in unsent:
            report.sent_at = now
        return [report.update for report in unsent]

    def confirm(self, now: float) -> None:
        """Forget reports that the connection, which still lives, carried long enough ago."""
        arrived = [
            job_id
            for job_id, report in self._reports.items()
            if report.sent_at is not None and now - report.sent_at >= CONFIRM_AFTER
        ]
        for job_id in arrived:
            del self._reports[job_id]

    def connection_lost(self, now: float) -> None:
        """Keep reports that the lost connection may not have delivered."""
        self.confirm(now)
        for report in self._reports.values():
            report.sent_at = None

    def has_unsent(self) -> bool:
        """Whether a report waits for a connection."""
        return any(report.sent_at is None for report in self._reports.values())
