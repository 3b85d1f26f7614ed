"""A supervisor on a bench: time is stepped by hand, and its effects are read."""

from __future__ import annotations

from vivavoce.agents.job import JobInfo
from vivavoce.agents.worker.effects import (
    Connect,
    Connected,
    ConnectionLost,
    DeadlinePassed,
    Effect,
    Input,
    MessageReceived,
    Send,
    Started,
)
from vivavoce.agents.worker.options import WorkerOptions
from vivavoce.agents.worker.protocol import (
    AnswerAvailability,
    AvailabilityAsked,
    JobAssigned,
    JobStatus,
    Registered,
    ServerMessage,
    UpdateJob,
    WorkerMessage,
)
from vivavoce.agents.worker.request import JobRequest
from vivavoce.agents.worker.supervisor import Supervisor


async def no_decision(request: JobRequest) -> None:
    """A handler; the supervisor itself never calls it."""


class Bench:
    """A supervisor on a bench: time, its connection's number, everything it wanted."""

    def __init__(self, *, is_registered: bool = True, jitter: float = 0.0, **options: object) -> None:
        self.supervisor = Supervisor("host", WorkerOptions(**options), lambda: jitter)  # type: ignore[arg-type]
        self.now = 100.0
        self.connection = 0
        if is_registered:
            self.give(Started())
            self.register()

    def give(self, input: Input) -> list[Effect]:
        effects = self.supervisor.handle(input, now=self.now)
        for effect in effects:
            if isinstance(effect, Connect):
                self.connection = effect.connection
        return effects

    def register(self) -> list[Effect]:
        self.give(Connected(connection=self.connection))
        return self.hear(Registered(worker_id="AW_1"))

    def hear(self, message: ServerMessage) -> list[Effect]:
        return self.give(MessageReceived(connection=self.connection, message=message))

    def lose(self, *, is_refused: bool = False) -> list[Effect]:
        return self.give(ConnectionLost(connection=self.connection, reason="gone", is_refused=is_refused))

    def wait(self, seconds: float) -> list[Effect]:
        """Let time pass, stopping at every deadline."""
        effects: list[Effect] = []
        end = self.now + seconds
        while (deadline := self.supervisor.next_deadline()) is not None and deadline <= end:
            self.now = max(self.now, deadline)
            effects += self.give(DeadlinePassed())
        self.now = end
        return effects

    def reconnect(self) -> list[Effect]:
        self.wait(0.0)
        return self.register()

    def start_job(self, job_id: str = "AJ_1") -> list[Effect]:
        self.hear(AvailabilityAsked(job=job_info(job_id)))
        return self.hear(JobAssigned(job=job_info(job_id), url="", token="t"))


def job_info(job_id: str = "AJ_1") -> JobInfo:
    return JobInfo(id=job_id, room=f"room-of-{job_id}")


def sent(effects: list[Effect], kind: type[WorkerMessage] | None = None) -> list[WorkerMessage]:
    messages = [effect.message for effect in effects if isinstance(effect, Send)]
    return [message for message in messages if kind is None or isinstance(message, kind)]


def answer_in(effects: list[Effect]) -> AnswerAvailability:
    [answer] = sent(effects, AnswerAvailability)
    assert isinstance(answer, AnswerAvailability)
    return answer


def job_update(job_id: str, status: JobStatus, error: str = "") -> UpdateJob:
    return UpdateJob(job_id=job_id, status=status, error=error)
