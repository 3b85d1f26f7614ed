"""The supervisor step by step: connecting, slots, reports, draining; time is stepped by hand."""

from __future__ import annotations

import pytest

from vivavoce.agents.job import JobInfo
from vivavoce.agents.worker.effects import (
    AskHandler,
    Connect,
    Connected,
    ConnectionLost,
    DeadlinePassed,
    Disconnect,
    DrainRequested,
    Effect,
    EndJob,
    Finish,
    Input,
    JobDecided,
    JobEnded,
    LoadMeasured,
    MessageReceived,
    Send,
    Started,
    StartJob,
    StopRequested,
    TellRetry,
)
from vivavoce.agents.worker.options import WorkerOptions
from vivavoce.agents.worker.protocol import (
    AnswerAvailability,
    AvailabilityAsked,
    GoAway,
    JobAssigned,
    JobStatus,
    JobTerminated,
    MigrateJobs,
    Register,
    Registered,
    ServerMessage,
    UpdateJob,
    UpdateWorker,
    WorkerMessage,
)
from vivavoce.agents.worker.request import Acceptance, JobRequest, Rejection
from vivavoce.agents.worker.supervisor import Supervisor


async def _no_decision(request: JobRequest) -> None:
    """Stands for any handler; the supervisor itself never calls it."""


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
        self.hear(AvailabilityAsked(job=_job(job_id)))
        return self.hear(JobAssigned(job=_job(job_id), url="", token="t"))


def _job(job_id: str = "AJ_1") -> JobInfo:
    return JobInfo(id=job_id, room=f"room-of-{job_id}")


def _sent(effects: list[Effect], kind: type[WorkerMessage] | None = None) -> list[WorkerMessage]:
    messages = [effect.message for effect in effects if isinstance(effect, Send)]
    return [message for message in messages if kind is None or isinstance(message, kind)]


def _answer(effects: list[Effect]) -> AnswerAvailability:
    [answer] = _sent(effects, AnswerAvailability)
    assert isinstance(answer, AnswerAvailability)
    return answer


def _update(job_id: str, status: JobStatus, error: str = "") -> UpdateJob:
    return UpdateJob(job_id=job_id, status=status, error=error)


def test_register_is_the_first_message_and_the_load_follows_the_reply() -> None:
    bench = Bench(is_registered=False)
    assert bench.give(Started()) == [Connect(connection=1)]

    assert _sent(bench.give(Connected(connection=1))) == [Register(agent_name="host")]
    assert _sent(bench.hear(Registered(worker_id="AW_1"))) == [
        UpdateWorker(is_available=True, load=0.0, job_count=0, is_draining=False)
    ]
    assert bench.supervisor.status().is_healthy


def test_a_first_message_that_is_no_register_reply_closes_the_connection() -> None:
    bench = Bench(is_registered=False)
    bench.give(Started())
    bench.give(Connected(connection=1))

    assert bench.hear(AvailabilityAsked(job=_job())) == [Disconnect(connection=1)]


def test_the_load_is_sent_every_two_and_a_half_seconds() -> None:
    bench = Bench()

    assert len(_sent(bench.wait(10.0), UpdateWorker)) == 4


def test_an_offer_is_answered_in_the_same_step_with_its_slot_reserved() -> None:
    bench = Bench(max_jobs=1)

    first = bench.hear(AvailabilityAsked(job=_job("AJ_1")))
    second = bench.hear(AvailabilityAsked(job=_job("AJ_2")))

    assert _answer(first) == AnswerAvailability(job_id="AJ_1", is_available=True, identity="agent-AJ_1")
    assert _sent(first)[-1] == UpdateWorker(is_available=False, load=1.0, job_count=1, is_draining=False)
    assert not _answer(second).is_available


def test_the_identity_option_names_the_agent_after_job_and_room() -> None:
    bench = Bench(identity="{room}/bot-{job_id}")

    assert _answer(bench.hear(AvailabilityAsked(job=_job()))).identity == "room-of-AJ_1/bot-AJ_1"


def test_an_assignment_starts_the_job_and_reports_it_running() -> None:
    bench = Bench()

    effects = bench.start_job()

    assert StartJob(assigned=JobAssigned(job=_job(), url="", token="t")) in effects
    assert _sent(effects, UpdateJob) == [_update("AJ_1", JobStatus.RUNNING)]


def test_an_assignment_that_does_not_come_frees_the_slot_after_its_limit() -> None:
    bench = Bench(max_jobs=1)
    bench.hear(AvailabilityAsked(job=_job("AJ_1")))

    bench.wait(7.4)
    assert not _answer(bench.hear(AvailabilityAsked(job=_job("AJ_2")))).is_available
    bench.wait(0.2)
    assert _answer(bench.hear(AvailabilityAsked(job=_job("AJ_3")))).is_available


def test_an_assignment_later_than_that_still_runs_while_there_is_room_and_fails_with_its_reason_when_not() -> None:
    bench = Bench(max_jobs=1)
    bench.hear(AvailabilityAsked(job=_job("AJ_1")))
    bench.wait(8.0)

    late = bench.hear(JobAssigned(job=_job("AJ_1"), url="", token="t"))
    later = bench.hear(JobAssigned(job=_job("AJ_2"), url="", token="t"))

    assert any(isinstance(effect, StartJob) for effect in late)
    assert _sent(later) == [
        _update("AJ_2", JobStatus.FAILED, "assigned too late (limit 7.5 s): the worker has no slot left")
    ]


@pytest.mark.parametrize(
    ("decision", "answer"),
    [
        (
            Acceptance(identity="bob", name="Bob", metadata="m", attributes={"a": "b"}),
            AnswerAvailability(
                job_id="AJ_1", is_available=True, identity="bob", name="Bob", metadata="m", attributes={"a": "b"}
            ),
        ),
        (Rejection(), AnswerAvailability(job_id="AJ_1", is_available=False)),
        (Rejection(terminate=True), AnswerAvailability(job_id="AJ_1", is_available=False, terminate=True)),
    ],
)
def test_a_request_handler_decides_on_offers(decision: Acceptance | Rejection, answer: AnswerAvailability) -> None:
    bench = Bench(on_request=_no_decision, max_jobs=1)

    assert AskHandler(job=_job()) in bench.hear(AvailabilityAsked(job=_job()))
    assert not _answer(bench.hear(AvailabilityAsked(job=_job("AJ_2")))).is_available  # its slot is reserved meanwhile

    assert _answer(bench.give(JobDecided(job_id="AJ_1", decision=decision))) == answer


def test_a_request_handler_that_does_not_decide_in_time_rejects_the_offer() -> None:
    bench = Bench(on_request=_no_decision, request_timeout=1.0)
    bench.hear(AvailabilityAsked(job=_job()))

    assert not _answer(bench.wait(1.5)).is_available
    assert _sent(bench.give(JobDecided(job_id="AJ_1", decision=Acceptance()))) == []


def test_the_end_of_a_job_is_reported_with_its_error_and_frees_its_slot() -> None:
    bench = Bench(max_jobs=1)
    bench.start_job()

    effects = bench.give(JobEnded(job_id="AJ_1", error="ValueError: no"))

    assert _sent(effects)[0] == _update("AJ_1", JobStatus.FAILED, "ValueError: no")
    assert _sent(effects)[-1] == UpdateWorker(is_available=True, load=0.0, job_count=0, is_draining=False)


def test_a_termination_ends_the_job_gently_and_only_once() -> None:
    bench = Bench()
    bench.start_job()

    assert bench.hear(JobTerminated(job_id="AJ_1")) == [EndJob(job_id="AJ_1", reason="the server ended the job")]
    assert bench.hear(JobTerminated(job_id="AJ_1")) == []
    assert bench.hear(JobTerminated(job_id="AJ_unknown")) == []


def test_the_measured_load_goes_to_the_server_within_its_bounds() -> None:
    bench = Bench()
    bench.give(LoadMeasured(load=7.0))

    [message] = _sent(bench.wait(2.5))
    assert message == UpdateWorker(is_available=True, load=1.0, job_count=0, is_draining=False)


def test_back_off_grows_by_two_seconds_to_ten_and_the_register_reply_resets_it() -> None:
    bench = Bench()
    delays = []
    for _ in range(8):
        [retry] = [effect for effect in bench.lose() if isinstance(effect, TellRetry)]
        delays.append(retry.delay)
        bench.wait(retry.delay)
        bench.give(Connected(connection=bench.connection))  # upgraded, then hung up on

    assert delays == [0.0, 2.0, 4.0, 6.0, 8.0, 10.0, 10.0, 10.0]
    bench.hear(Registered(worker_id="AW_2"))
    assert TellRetry(reason="gone", delay=0.0, attempt=1) in bench.lose()


def test_jitter_is_added_to_every_delay() -> None:
    bench = Bench(jitter=0.75)

    assert TellRetry(reason="gone", delay=0.75, attempt=1) in bench.lose()
    assert [e for e in bench.wait(0.5) if isinstance(e, Connect)] == []
    assert [e for e in bench.wait(0.25) if isinstance(e, Connect)] == [Connect(connection=2)]


def test_a_server_that_never_answers_is_left_after_ten_seconds() -> None:
    bench = Bench(is_registered=False)
    bench.give(Started())

    assert bench.wait(9.9) == []
    assert bench.wait(0.2) == [Disconnect(connection=1)]


def test_too_many_failures_in_a_row_end_the_worker_unhealthy_with_the_last_reason() -> None:
    bench = Bench(is_registered=False, max_retry=2)
    bench.give(Started())
    bench.lose()
    bench.wait(0.0)
    bench.lose()
    bench.wait(2.0)

    assert bench.lose() == [Finish(error="could not register with the LiveKit server: gone (tried 3 times)")]
    assert not bench.supervisor.status().is_healthy
    assert bench.supervisor.next_deadline() is None


def test_refused_credentials_end_a_worker_that_never_registered_and_are_retried_by_one_that_did() -> None:
    fresh, known = Bench(is_registered=False), Bench()
    fresh.give(Started())

    assert fresh.lose(is_refused=True) == [Finish(error="could not register with the LiveKit server: gone")]
    assert any(isinstance(effect, TellRetry) for effect in known.lose(is_refused=True))


def test_a_failed_worker_lets_its_running_jobs_finish_first() -> None:
    bench = Bench(max_retry=0, drain_timeout=60.0)
    bench.start_job()

    assert not any(isinstance(effect, Finish) for effect in bench.lose())
    assert [effect for effect in bench.wait(60.0) if isinstance(effect, EndJob)] == [
        EndJob(job_id="AJ_1", reason="the worker is ending")
    ]
    [finish] = bench.give(JobEnded(job_id="AJ_1"))
    assert isinstance(finish, Finish)
    assert finish.error


def test_running_jobs_outlive_a_lost_connection_and_move_to_the_next() -> None:
    bench = Bench()
    bench.start_job()

    assert not any(isinstance(effect, EndJob) for effect in bench.lose())
    assert MigrateJobs(job_ids=("AJ_1",)) in _sent(bench.reconnect())


def test_a_slot_whose_assignment_was_awaited_on_a_lost_connection_is_free_again() -> None:
    bench = Bench(max_jobs=1)
    bench.hear(AvailabilityAsked(job=_job("AJ_1")))
    bench.lose()
    bench.reconnect()

    assert _answer(bench.hear(AvailabilityAsked(job=_job("AJ_2")))).is_available


def test_a_report_made_while_disconnected_is_sent_after_the_next_register_reply() -> None:
    bench = Bench()
    bench.start_job()
    bench.lose()
    assert _sent(bench.give(JobEnded(job_id="AJ_1"))) == []

    assert _update("AJ_1", JobStatus.SUCCESS) in _sent(bench.reconnect())


def test_a_report_sent_just_before_the_connection_died_is_sent_again_and_an_old_one_is_not() -> None:
    bench = Bench()
    bench.start_job("AJ_1")
    bench.start_job("AJ_2")
    bench.give(JobEnded(job_id="AJ_1"))
    bench.wait(25.0)
    bench.give(JobEnded(job_id="AJ_2"))
    bench.lose()

    assert _sent(bench.reconnect(), UpdateJob) == [_update("AJ_2", JobStatus.SUCCESS)]


def test_load_is_not_saved_up_while_disconnected() -> None:
    bench = Bench()
    bench.lose()
    bench.give(LoadMeasured(load=0.3))

    assert len(_sent(bench.reconnect(), UpdateWorker)) == 1


def test_words_of_an_earlier_connection_are_ignored() -> None:
    bench = Bench()
    old = bench.connection
    bench.lose()
    bench.reconnect()

    assert bench.give(MessageReceived(connection=old, message=AvailabilityAsked(job=_job()))) == []
    assert bench.give(ConnectionLost(connection=old, reason="twice")) == []


def test_a_server_that_goes_away_is_left_and_the_worker_comes_back() -> None:
    bench = Bench()

    assert bench.hear(GoAway()) == [Disconnect(connection=1)]
    assert Connect(connection=2) in bench.lose()


def test_a_draining_worker_says_so_takes_nothing_and_ends_with_its_last_job() -> None:
    bench = Bench()
    bench.start_job()

    assert UpdateWorker(is_available=False, load=0.1, job_count=1, is_draining=True) in _sent(
        bench.give(DrainRequested())
    )
    assert not _answer(bench.hear(AvailabilityAsked(job=_job("AJ_2")))).is_available
    effects = bench.give(JobEnded(job_id="AJ_1"))
    assert effects[-1] == Disconnect(connection=1)
    assert _update("AJ_1", JobStatus.SUCCESS) in _sent(effects)
    assert bench.lose() == [Finish()]


def test_draining_ends_the_jobs_at_its_limit_and_stopping_ends_them_at_once() -> None:
    bench = Bench(drain_timeout=30.0)
    bench.start_job()
    bench.give(DrainRequested())

    assert not any(isinstance(effect, EndJob) for effect in bench.wait(29.0))
    assert EndJob(job_id="AJ_1", reason="the worker is ending") in bench.wait(1.0)
    assert EndJob(job_id="AJ_1", reason="the worker is stopping", is_forced=True) in bench.give(StopRequested())


def test_a_worker_asked_to_end_before_it_registered_ends() -> None:
    before, dialling = Bench(is_registered=False), Bench(is_registered=False)
    dialling.give(Started())

    assert before.give(StopRequested()) == [Finish()]
    assert dialling.give(DrainRequested())[-1] == Disconnect(connection=1)
    assert dialling.lose() == [Finish()]


def test_a_worker_that_ends_while_disconnected_waits_a_moment_to_deliver_its_last_report() -> None:
    bench = Bench()
    bench.start_job()
    bench.give(DrainRequested())
    bench.lose()
    assert bench.give(JobEnded(job_id="AJ_1")) == []

    effects = bench.reconnect()

    assert _update("AJ_1", JobStatus.SUCCESS) in _sent(effects)
    assert effects[-1] == Disconnect(connection=2)
    assert bench.lose() == [Finish()]


def test_a_server_that_stays_away_does_not_hold_up_the_end() -> None:
    bench = Bench()
    bench.start_job()
    bench.lose()
    bench.give(DrainRequested())
    bench.give(JobEnded(job_id="AJ_1"))

    assert bench.wait(3.0)[-1] == Finish()
    assert bench.give(StopRequested()) == []
