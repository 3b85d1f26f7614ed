"""The ledger of `run.py`: facts about calls, jobs and kills, and the faults that follow from them. No I/O."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

AGENT_WITHIN = 10.0
"""Seconds from the beginning of a call, or from a kill, until its caller must hear an agent."""

AGENT_ENDED = "the last session has closed"


@dataclass(slots=True)
class Job:
    """A job, as the application has written it down."""

    id: str
    room: str
    pid: int
    began: float
    resumes: str
    heals: str
    kept: int
    identity: str = ""
    started: float | None = None
    items: int = 0
    ended: float | None = None
    reason: str = ""
    begins: int = 1
    ends: int = 0


@dataclass(slots=True)
class Call:
    """A caller's time in a room."""

    room: str
    began: float
    agent_ends: bool
    ended: float | None = None
    voices: list[tuple[float, str]] = field(default_factory=list)
    """When the agent began to be heard, each time, and which one."""
    errors: list[tuple[float, str]] = field(default_factory=list)


@dataclass(slots=True)
class Offer:
    """A job that the server offers to a worker."""

    at: float
    job: str
    connection: int
    load: float
    """The machine's load."""
    answered: float | None = None
    is_taken: bool = False

    def words(self, began: float) -> str:
        """Return it for people, `began` being the call's beginning."""
        answer = "no answer"
        if self.answered is not None:
            answer = f"{'taken' if self.is_taken else 'refused'} after {self.answered - self.at:.2f} s"
        return f"{self.at - began:.1f} s {self.job} to worker {self.connection}: {answer} (load {self.load:.1f})"


@dataclass(slots=True)
class Kill:
    """Something done to a host."""

    at: float
    kind: str
    pids: frozenset[int]
    """Job processes that die of it."""
    rooms: tuple[str, ...]
    load: float


class Ledger:
    """Takes the facts in the order in which they become known."""

    def __init__(self) -> None:
        self.calls: dict[str, Call] = {}
        self.jobs: dict[str, Job] = {}
        self.kills: list[Kill] = []
        self.faults: list[str] = []
        """Found while it ran."""
        self._dead: dict[int, float] = {}
        self._assigned: defaultdict[str, list[tuple[float, int]]] = defaultdict(list)
        self._reports: defaultdict[str, list[tuple[float, int, str]]] = defaultdict(list)
        self._lost_connections: dict[int, float] = {}
        self._offers: defaultdict[str, list[Offer]] = defaultdict(list)
        """By room."""

    # --- facts

    def called(self, room: str, at: float, *, agent_ends: bool) -> None:
        """A caller dials."""
        self.calls[room] = Call(room, at, agent_ends)

    def caller_said(self, told: dict[str, Any]) -> None:
        """Take a line of the callers' program."""
        call = self.calls.get(told.get("room", ""))
        if call is None:
            return
        if told.get("event") == "voice":
            call.voices.append((told["at"], told["agent"]))
        elif "error" in told:
            call.errors.append((told["at"], told["error"]))

    def job_said(self, told: dict[str, Any]) -> None:
        """Take a line of the application."""
        job = self.jobs.get(told["job"])
        if told["event"] == "begin":
            if job is not None:
                job.begins += 1
                return
            facts = {name: told[name] for name in ("room", "pid", "resumes", "heals", "kept")}
            self.jobs[told["job"]] = Job(id=told["job"], began=told["at"], **facts)
        elif job is None:
            self.faults.append(f"job {told['job']} reports {told['event']} and has not begun")
        elif told["event"] == "joined":
            job.identity = told["identity"]
        elif told["event"] == "started":
            job.started, job.items = told["at"], told["items"]
        elif told["event"] == "end":
            job.ended, job.reason = told["at"], told["reason"]
            job.ends += 1

    def offered(self, room: str, offer: Offer) -> None:
        """The server offers a job."""
        self._offers[room].append(offer)

    def answered(self, job_id: str, connection: int, at: float, *, is_taken: bool) -> None:
        """A worker answers an offer."""
        for offers in self._offers.values():
            for offer in offers:
                if (offer.job, offer.connection) == (job_id, connection):
                    offer.answered, offer.is_taken = at, is_taken

    def assigned(self, job_id: str, connection: int, at: float) -> None:
        """The server assigns a job to the worker of that connection."""
        self._assigned[job_id].append((at, connection))

    def reported(self, job_id: str, connection: int, at: float, outcome: str) -> None:
        """A worker reports the end of a job."""
        self._reports[job_id].append((at, connection, outcome))

    def connection_lost(self, connection: int, at: float) -> None:
        """A worker's connection has ended."""
        self._lost_connections[connection] = at

    def killed(self, at: float, kind: str, pids: Iterable[int], load: float) -> Kill:
        """A host has been hurt; these job processes die of it."""
        dead = frozenset(pids)
        rooms = tuple({job.room for job in self.running() if job.pid in dead})
        self._dead.update(dict.fromkeys(dead, at))
        kill = Kill(at, kind, dead, rooms, load)
        self.kills.append(kill)
        return kill

    def running(self) -> Iterator[Job]:
        """Return the jobs that have begun and not ended."""
        return (job for job in self.jobs.values() if job.ended is None and job.pid not in self._dead)

    def agents_present(self, room: str, identities: list[str], at: float) -> int:
        """Return how many of these agents in a room are alive; unknown ones count."""
        latest = {job.identity: job for job in self.jobs.values() if job.room == room and job.identity}
        alive = 0
        for identity in identities:
            job = latest.get(identity)
            alive += job is None or (job.ended is None and job.pid not in self._dead)
        return alive

    def has_agent_ended(self, room: str) -> bool:
        """Whether a job of that room has ended because its agent closed the call."""
        return any(job.room == room and job.reason.startswith(AGENT_ENDED) for job in self.jobs.values())

    # --- judgement

    def judged(self) -> list[str]:
        """Return the faults."""
        found = list(self.faults)
        for call in self.calls.values():
            found += self._of_call(call)
        for job in self.jobs.values():
            found += self._of_job(job)
        for job_id, assigned in self._assigned.items():
            found += self._of_assignment(job_id, assigned)
        return found

    def gaps(self) -> dict[str, list[float]]:
        """Return the seconds from each kill to the agent's next words, by kind; infinite: never."""
        found: defaultdict[str, list[float]] = defaultdict(list)
        for kill in self.kills:
            for room in kill.rooms:
                call = self.calls[room]
                if self._is_judged(call, kill):
                    found[kill.kind].append(self._heard_again(call, kill) - kill.at)
        return dict(found)

    def first_words(self) -> list[float]:
        """Return the seconds from the beginning of each call to the agent's first words."""
        return [call.voices[0][0] - call.began for call in self.calls.values() if call.voices]

    def offers(self) -> dict[str, list[str]]:
        """Return the offers of each call, for people."""
        return {
            room: [offer.words(self.calls[room].began) for offer in offers] for room, offers in self._offers.items()
        }

    def counts(self) -> dict[str, Any]:
        """Return figures for people."""
        judged = sum(len(gaps) for gaps in self.gaps().values())
        return {
            "calls": len(self.calls),
            "jobs": len(self.jobs),
            "jobs_that_continued_a_call": sum(bool(job.resumes) for job in self.jobs.values()),
            "of_them_with_its_conversation": sum(bool(job.resumes and job.kept) for job in self.jobs.values()),
            "jobs_in_the_place_of_a_lost_dispatch": sum(
                bool(job.heals and not job.resumes) for job in self.jobs.values()
            ),
            "kills": dict(Counter(kill.kind for kill in self.kills)),
            "calls_struck": sum(len(kill.rooms) for kill in self.kills),
            "calls_struck_whose_caller_stayed": judged,
            "no_answer_to_a_sentence": sum(len(call.errors) for call in self.calls.values()),
        }

    def _is_judged(self, call: Call, kill: Kill) -> bool:
        """Whether the caller stayed long enough after the kill, and no other kill struck before the agent was back."""
        until = kill.at + AGENT_WITHIN
        if (call.ended or until) < until or self.has_agent_ended_by(call.room, until):
            return False
        heard = self._heard_again(call, kill)
        return not any(other.at > kill.at and other.at < min(heard, until) for other in self.kills)

    def has_agent_ended_by(self, room: str, at: float) -> bool:
        """Whether the agent closed the call before `at`."""
        return any(
            job.room == room and job.reason.startswith(AGENT_ENDED) and job.ended is not None and job.ended < at
            for job in self.jobs.values()
        )

    def _heard_again(self, call: Call, kill: Kill) -> float:
        successors = [job.began for job in self.jobs.values() if job.room == call.room and job.began > kill.at]
        if not successors:
            return float("inf")
        return next((at for at, _ in call.voices if at > min(successors)), float("inf"))

    def _of_call(self, call: Call) -> Iterator[str]:
        for kill in self.kills:
            if call.room in kill.rooms and self._is_judged(call, kill):
                gap = self._heard_again(call, kill) - kill.at
                if gap > AGENT_WITHIN:
                    words = f"no agent within {AGENT_WITHIN:g} s of {_words(kill)}, but after {gap:.1f} s"
                    yield f"{call.room}: {words}; {self._offers_of(call)}"
        yield from self._of_beginning(call)
        ends = [job for job in self.jobs.values() if job.room == call.room and job.reason.startswith(AGENT_ENDED)]
        for end in ends:
            late = [job.id for job in self.jobs.values() if job.room == call.room and job.began > (end.ended or 0.0)]
            if late:
                words = f"the agent had ended the call, and job {late[0]} began after it"
                yield f"{call.room}: {words}; {self._offers_of(call)}"

    def _of_beginning(self, call: Call) -> Iterator[str]:
        first = call.voices[0][0] if call.voices else float("inf")
        since = max([call.began, *(kill.at for kill in self.kills if call.began - 15.0 < kill.at < first)])
        until = since + AGENT_WITHIN
        if first > until and (call.ended or until + 1.0) > until:
            words = f"first words {first - since:.1f} s after it or the last kill, not {AGENT_WITHIN:g}"
            yield f"{call.room}: {words}; {self._offers_of(call)}"

    def _offers_of(self, call: Call) -> str:
        kills = [f"{kill.at - call.began:.1f} s {_words(kill)}" for kill in self.kills if kill.at > call.began - 15.0]
        offers = [offer.words(call.began) for offer in self._offers[call.room]]
        return f"kills: {', '.join(kills[:4])}; offers: {', '.join(offers)}"

    def _of_job(self, job: Job) -> Iterator[str]:
        if job.begins > 1:
            yield f"job {job.id} began {job.begins} times"
        if job.ends > 1:
            yield f"job {job.id} ended {job.ends} times"
        if not job.ends and job.pid not in self._dead:
            yield f"job {job.id} has no end, and its process {job.pid} was not killed"

    def _of_assignment(self, job_id: str, assigned: list[tuple[float, int]]) -> Iterator[str]:
        if len(assigned) > 1:
            yield f"job {job_id} was assigned {len(assigned)} times"
        _, connection = assigned[-1]
        reports = self._reports.get(job_id, [])
        died = self._was_killed(connection)
        if len(reports) > 1:
            yield f"the end of job {job_id} was reported {len(reports)} times: {reports}"
        if not reports and not died:
            yield f"the end of job {job_id} was never reported, and its worker was not killed"

    def _was_killed(self, connection: int) -> bool:
        lost = self._lost_connections.get(connection)
        return lost is not None and any(kill.kind == "worker" and 0 <= lost - kill.at < 2.0 for kill in self.kills)


def _words(kill: Kill) -> str:
    return f"the kill of a {kill.kind} (load {kill.load:.1f})"
