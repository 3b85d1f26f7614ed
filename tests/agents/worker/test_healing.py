"""Which callers get an agent from a worker that looks for them: rules of `Healing`, one by one and as laws."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from vivavoce.agents.worker import healing as h
from vivavoce.agents.worker.room_facts import (
    DispatchedJob,
    DispatchFacts,
    NewDispatch,
    ParticipantFacts,
    RoomFacts,
)

CALLER = ParticipantFacts(identity="caller")


def _agent(identity: str, name: str | None = "host") -> ParticipantFacts:
    return ParticipantFacts(identity=identity, is_agent=True, is_caller=False, agent_name=name)


def _dispatch(id: str = "AD_1", *jobs: DispatchedJob, heals: str = "", name: str = "host") -> DispatchFacts:
    return DispatchFacts(
        id=id, agent_name=name, metadata="table 7", attributes={"tier": "gold"}, heals=heals, jobs=jobs
    )


AGAIN = NewDispatch(room="kitchen", agent_name="host", metadata="table 7", attributes={"tier": "gold"}, heals="AD_1")


class Bench:
    """One worker's machine, and the room "kitchen" as its server has it."""

    def __init__(self, *, may_join: bool = True) -> None:
        self.now = 100.0
        self.healing = h.Healing("host", lambda: 0.0, may_join=may_join)
        self.participants: tuple[ParticipantFacts, ...] | None = (CALLER,)
        self.dispatches: list[DispatchFacts] = [_dispatch()]
        self.looks: list[float] = []
        self.done: list[tuple[float, h.Effect]] = []
        """The effects on the room, and after how many seconds."""

    def give(self, input: h.Input) -> None:
        for effect in self.healing.handle(input, now=self.now):
            match effect:
                case h.ListRooms():
                    callers = sum(1 for one in self.participants or () if one.is_caller)
                    rooms = (
                        () if self.participants is None else (RoomFacts(name="kitchen", sid="RM_1", callers=callers),)
                    )
                    self.give(h.RoomsListed(rooms=rooms))
                case h.LookAt(room=room):
                    self.looks.append(self.now)
                    self.give(h.RoomSeen(room=room, participants=self.participants, dispatches=tuple(self.dispatches)))
                case _:
                    self.done.append((round(self.now - 100.0, 1), effect))
                    if isinstance(effect, h.DispatchAgain):
                        self.dispatches.append(_dispatch(f"AD_{len(self.dispatches) + 1}", heals=effect.wanted.heals))
                    if isinstance(effect, h.DeleteDispatch):
                        self.dispatches = [one for one in self.dispatches if one.id != effect.dispatch_id]

    def until(self, seconds: float) -> None:
        """Let time pass until so many seconds after the beginning."""
        while (deadline := self.healing.next_deadline()) is not None and deadline <= 100.0 + seconds:
            self.now = max(self.now, deadline)
            self.give(h.TimePassed())
        self.now = 100.0 + seconds


def test_a_lost_dispatch_is_made_again_once_its_job_would_have_been_listed() -> None:
    bench = Bench()
    bench.give(h.LookNow())
    bench.until(5.4)
    assert bench.done == []
    bench.until(9.0)
    assert bench.done == [(5.5, h.DispatchAgain(wanted=AGAIN))]


def test_a_new_dispatch_that_leads_to_no_job_is_replaced_and_in_turn_the_worker_joins_itself() -> None:
    bench = Bench()
    bench.give(h.LookNow())
    bench.until(40.0)
    assert bench.done == [
        (5.5, h.DispatchAgain(wanted=AGAIN)),
        (15.5, h.DeleteDispatch(room="kitchen", dispatch_id="AD_2")),
        (15.5, h.JoinItself(wanted=AGAIN)),
        (25.5, h.DispatchAgain(wanted=AGAIN)),
        (35.5, h.DeleteDispatch(room="kitchen", dispatch_id="AD_2")),
        (35.5, h.JoinItself(wanted=AGAIN)),
    ]


def test_a_worker_with_a_handler_that_decides_about_jobs_never_joins_by_itself() -> None:
    bench = Bench(may_join=False)
    bench.give(h.LookNow())
    bench.until(40.0)
    assert not any(isinstance(effect, h.JoinItself) for _, effect in bench.done)
    assert sum(isinstance(effect, h.DispatchAgain) for _, effect in bench.done) == 4


@pytest.mark.parametrize(
    ("participants", "dispatch"),
    [
        ((CALLER, _agent("agent-AJ_1")), _dispatch()),
        ((CALLER, _agent("agent-AD_1")), _dispatch()),
        ((CALLER, _agent("butler", name=None)), _dispatch()),
        ((CALLER, _agent("butler", name="cook")), _dispatch("AD_1", DispatchedJob(id="AJ_1", identity="butler"))),
        ((CALLER,), _dispatch("AD_1", DispatchedJob(id="AJ_1", is_over=True))),
        ((CALLER,), _dispatch(name="cook")),
        ((), _dispatch()),
        ((_agent("agent-AJ_9", name="cook"),), _dispatch()),
        (None, _dispatch()),
    ],
    ids=[
        "an agent whose job is not listed yet",
        "the agent of a healed dispatch",
        "an agent of an unknown worker",
        "the listed agent, under another name",
        "a job that was ended by its worker's handler",
        "a dispatch of another name",
        "an empty room",
        "a room without a caller",
        "a closed room",
    ],
)
def test_a_room_that_misses_nothing_is_left_alone(
    participants: tuple[ParticipantFacts, ...] | None, dispatch: DispatchFacts
) -> None:
    bench = Bench()
    bench.participants, bench.dispatches = participants, [dispatch]
    bench.give(h.LookNow())
    bench.until(120.0)
    assert bench.done == []


def test_the_agent_of_another_dispatch_does_not_count() -> None:
    bench = Bench()
    bench.participants = (CALLER, _agent("agent-AJ_2"))
    bench.dispatches = [_dispatch(), _dispatch("AD_2", DispatchedJob(id="AJ_2", identity="agent-AJ_2"))]
    bench.give(h.LookNow())
    bench.until(9.0)
    assert bench.done == [(5.5, h.DispatchAgain(wanted=AGAIN))]


def test_a_listed_job_has_time_to_join() -> None:
    bench = Bench()
    bench.dispatches = [_dispatch("AD_1", DispatchedJob(id="AJ_1", identity="agent-AJ_1"))]
    bench.give(h.LookNow())
    bench.until(29.0)
    assert bench.done == []
    bench.until(35.0)
    assert [effect for _, effect in bench.done] == [h.DispatchAgain(wanted=AGAIN)]


def test_an_agent_that_has_vanished_is_replaced_sooner() -> None:
    bench = Bench()
    bench.dispatches = [_dispatch("AD_1", DispatchedJob(id="AJ_1", identity="agent-AJ_1"))]
    bench.participants = (CALLER, _agent("agent-AJ_1"))
    bench.give(h.LookNow())
    bench.until(25.0)
    bench.participants = (CALLER,)
    bench.until(45.0)
    assert bench.done == [(38.0, h.DispatchAgain(wanted=AGAIN))]  # seen to be gone at 30 s


def test_a_dispatch_that_another_worker_has_just_healed_is_left_alone() -> None:
    bench = Bench()
    bench.give(h.LookNow())
    bench.until(4.0)
    bench.dispatches.append(_dispatch("AD_2", heals="AD_1"))
    bench.until(15.0)
    assert bench.done == []


def test_a_call_whose_job_failed_here_is_dispatched_again_soon_and_its_ghost_is_removed() -> None:
    bench = Bench()
    bench.give(h.LookNow())
    bench.give(h.JobTaken(job_id="AJ_1", room="kitchen", dispatch_id="AD_1", identity="agent-AJ_1"))
    bench.until(20.0)
    bench.participants = (CALLER, _agent("agent-AJ_1"))
    bench.dispatches = [_dispatch("AD_1", DispatchedJob(id="AJ_1", identity="agent-AJ_1"))]
    bench.give(h.JobOver(job_id="AJ_1", has_failed=True, has_ghost=True))
    bench.until(21.0)
    bench.participants = (CALLER,)
    bench.until(26.0)
    assert bench.done[0] == (20.0, h.RemoveGhost(room="kitchen", identity="agent-AJ_1"))
    assert bench.done[-1] == (23.0, h.DispatchAgain(wanted=AGAIN))


def test_jobs_that_always_fail_are_given_up() -> None:
    bench = Bench()
    jobs = [_dispatch("AD_1", DispatchedJob(id="AJ_1"))]
    jobs += [_dispatch(f"AD_{n}", DispatchedJob(id=f"AJ_{n}"), heals="AD_1") for n in (2, 3, 4)]
    bench.dispatches = jobs
    bench.give(h.LookNow())
    bench.until(300.0)
    assert [effect for _, effect in bench.done] == [h.GiveUp(room="kitchen", dispatch_id="AD_1")]


def test_a_call_that_ended_in_success_is_deleted_and_never_dispatched_again() -> None:
    bench = Bench()
    bench.give(h.JobTaken(job_id="AJ_1", room="kitchen", dispatch_id="AD_1"))
    bench.give(h.LookNow())
    bench.give(h.JobOver(job_id="AJ_1"))
    bench.until(120.0)
    assert bench.done == [(0.0, h.DeleteDispatch(room="kitchen", dispatch_id="AD_1"))]


def test_a_call_that_ended_in_success_is_deleted_at_once_since_no_time_passes_for_a_draining_worker() -> None:
    bench = Bench()
    bench.give(h.JobTaken(job_id="AJ_1", room="kitchen", dispatch_id="AD_1"))
    bench.give(h.LookNow())
    bench.give(h.JobOver(job_id="AJ_1"))
    assert bench.done == [(0.0, h.DeleteDispatch(room="kitchen", dispatch_id="AD_1"))]


def test_an_agent_that_has_just_left_does_not_count_although_the_server_still_lists_it() -> None:
    bench = Bench()
    bench.give(h.JobTaken(job_id="AJ_1", room="kitchen", dispatch_id="AD_1", identity="agent-AJ_1"))
    bench.give(h.LookNow())
    bench.participants = (CALLER, _agent("agent-AJ_1"))
    bench.give(h.JobOver(job_id="AJ_1"))
    assert bench.done == [(0.0, h.DeleteDispatch(room="kitchen", dispatch_id="AD_1"))]


@pytest.mark.parametrize("listed_after", [0.0, 1.0])
def test_a_job_that_lost_its_place_to_another_agent_of_the_call_deletes_nothing(listed_after: float) -> None:
    bench = Bench()
    bench.give(h.JobTaken(job_id="AJ_1", room="kitchen", dispatch_id="AD_1", identity="agent-AD_1"))
    bench.give(h.LookNow())
    if not listed_after:
        bench.participants = (CALLER, _agent("agent-AD_1"))
    bench.give(h.JobOver(job_id="AJ_1", is_replaced=True))
    bench.until(listed_after)
    bench.participants = (CALLER, _agent("agent-AD_1"))
    bench.until(120.0)
    assert bench.done == []


def test_a_call_whose_job_lost_its_place_is_healed_if_the_other_agent_is_lost_too() -> None:
    bench = Bench()
    bench.give(h.JobTaken(job_id="AJ_1", room="kitchen", dispatch_id="AD_1", identity="agent-AD_1"))
    bench.give(h.LookNow())
    bench.give(h.JobOver(job_id="AJ_1", is_replaced=True))
    bench.until(9.0)
    assert [effect for _, effect in bench.done] == [h.DispatchAgain(wanted=AGAIN)]


def test_a_room_is_not_looked_at_without_need() -> None:
    bench = Bench()
    bench.participants, bench.dispatches = (CALLER, _agent("agent-AJ_1")), [_dispatch()]
    bench.give(h.LookNow())
    bench.until(100.0)
    assert len(bench.looks) <= 11


def test_a_look_that_failed_is_tried_again() -> None:
    healing = h.Healing("host", lambda: 0.0)
    healing.handle(h.LookNow(), now=0.0)
    seen = h.RoomsListed(rooms=(RoomFacts(name="kitchen", sid="RM_1", callers=1),))
    assert healing.handle(seen, now=0.0) == [h.LookAt(room="kitchen")]
    healing.handle(h.LookFailed(room="kitchen"), now=1.0)
    assert h.LookAt(room="kitchen") in healing.handle(h.TimePassed(), now=3.0)


def test_a_new_room_of_the_same_name_has_another_past() -> None:
    bench = Bench()
    bench.give(h.JobTaken(job_id="AJ_1", room="kitchen", dispatch_id="AD_1"))
    bench.give(h.LookNow())
    bench.give(h.JobOver(job_id="AJ_1"))
    bench.done.clear()
    bench.give(h.RoomsListed(rooms=()))
    bench.dispatches = [_dispatch()]
    bench.until(20.0)
    assert [effect for _, effect in bench.done][0] == h.DispatchAgain(wanted=AGAIN)


# --- laws: several workers, one server


@dataclass
class Server:
    """A room of a server that lists jobs 5 s late, never lists their ends, and keeps one agent of an identity."""

    dispatches: dict[str, float] = field(default_factory=dict)
    heals: dict[str, str] = field(default_factory=dict)
    jobs: dict[str, tuple[str, float]] = field(default_factory=dict)
    """Dispatch → the identity of its job's agent, and since when."""
    agents: dict[str, tuple[str, int]] = field(default_factory=dict)
    """Identity → its job and its worker."""


class Workers(RuleBasedStateMachine):
    """Workers lose offers, jobs fail and agents die; yet a caller gets an agent, and never two."""

    COUNT = 3

    @initialize(waits=st.lists(st.floats(0, 1), min_size=3, max_size=3))
    def begin(self, waits: list[float]) -> None:
        self.now = 1000.0
        self.server = Server()
        self.machines = [h.Healing("host", lambda wait=wait: wait) for wait in waits]  # type: ignore[misc]
        self.is_deaf = False
        self.is_over = False
        self.alone_since: float | None = None
        self.last_act: dict[str, float] = {}
        self.number = 0
        self._make("")
        for index in range(self.COUNT):
            self._give(index, h.LookNow())

    def _make(self, heals: str, worker: int = 0) -> None:
        self.number += 1
        name = f"AD_{self.number}"
        self.server.dispatches[name] = self.now
        if heals:
            self.server.heals[name] = heals
        if not self.is_deaf:
            self._run(name, worker)

    def _run(self, dispatch: str, worker: int) -> None:
        root = self.server.heals.get(dispatch, "")
        identity = f"agent-{root}" if root else f"agent-AJ_{dispatch}"
        self.server.jobs[dispatch] = (identity, self.now)
        self.server.agents[identity] = (f"AJ_{dispatch}", worker)
        self._give(
            worker,
            h.JobTaken(job_id=f"AJ_{dispatch}", room="kitchen", dispatch_id=root or dispatch, identity=identity),
        )

    def _seen(self) -> h.RoomSeen:
        dispatches = []
        for name in self.server.dispatches:
            job = self.server.jobs.get(name)
            is_listed = job is not None and self.now - job[1] >= 5.0
            jobs = (DispatchedJob(id=f"AJ_{name}", identity=job[0]),) if job is not None and is_listed else ()
            dispatches.append(_dispatch(name, *jobs, heals=self.server.heals.get(name, "")))
        agents = tuple(_agent(identity) for identity in self.server.agents)
        return h.RoomSeen(room="kitchen", participants=(CALLER, *agents), dispatches=tuple(dispatches))

    def _give(self, index: int, input: h.Input) -> None:
        for effect in self.machines[index].handle(input, now=self.now):
            match effect:
                case h.ListRooms():
                    self._give(index, h.RoomsListed(rooms=(RoomFacts(name="kitchen", sid="RM_1", callers=1),)))
                case h.LookAt():
                    self._give(index, self._seen())
                case h.DispatchAgain(wanted=wanted):
                    self._act(wanted.heals)
                    self._make(wanted.heals, (index + 1) % self.COUNT)
                case h.JoinItself(wanted=wanted):
                    self._act(wanted.heals)
                    self.number += 1
                    identity = f"agent-{wanted.heals}"
                    self.server.agents[identity] = (f"own-{self.number}", index)
                    taken = h.JobTaken(
                        job_id=f"own-{self.number}", room="kitchen", dispatch_id=wanted.heals, identity=identity
                    )
                    self._give(index, taken)
                case h.RemoveGhost(identity=identity):
                    self.server.agents.pop(identity, None)
                case h.DeleteDispatch(dispatch_id=name):
                    self.server.dispatches.pop(name, None)

    def _act(self, root: str) -> None:
        assert not self.is_over, "a call that is over is not dispatched again"
        assert not self.server.agents, "no second agent is sent to a caller"
        last = self.last_act.get(root)
        assert last is None or self.now - last >= 3.0, "nobody heals what was healed just now"
        self.last_act[root] = self.now

    def _due(self) -> Iterator[tuple[float, int]]:
        for index, machine in enumerate(self.machines):
            if (deadline := machine.next_deadline()) is not None:
                yield deadline, index

    @rule(seconds=st.floats(0.1, 40.0))
    def time_passes(self, seconds: float) -> None:
        until = self.now + seconds
        while (due := min(self._due(), default=None)) is not None and due[0] <= until:
            self.now = max(self.now, due[0])
            self._give(due[1], h.TimePassed())
        self.now = until

    @rule()
    def offers_are_lost(self) -> None:
        self.is_deaf = True

    @rule()
    def offers_are_answered(self) -> None:
        self.is_deaf = False

    @precondition(lambda self: self.server.agents)
    @rule()
    def the_agent_s_process_dies(self) -> None:
        job_id, worker = self._end()
        self.last_act.clear()  # its agent came and died: the next act heals another loss
        self._give(worker, h.JobOver(job_id=job_id, has_failed=True, has_ghost=True))

    @precondition(lambda self: self.server.agents)
    @rule()
    def the_agent_s_worker_dies_and_another_one_comes(self) -> None:
        _, worker = self._end()
        self.last_act.clear()
        self.machines[worker] = h.Healing("host", lambda: 0.5)
        self._give(worker, h.LookNow())

    @precondition(lambda self: self.server.agents and not self.is_over)
    @rule()
    def the_agent_ends_the_call(self) -> None:
        job_id, worker = self._end()
        self.is_over = True
        self._give(worker, h.JobOver(job_id=job_id))

    def _end(self) -> tuple[str, int]:
        (identity,) = self.server.agents
        return self.server.agents.pop(identity)

    @precondition(
        lambda self: not self.is_over and len(self.server.heals.keys() & self.server.jobs.keys()) < h.MAX_JOBS
    )
    @rule()
    def in_the_end_the_caller_has_an_agent(self) -> None:
        self.is_deaf = False
        self.time_passes(60.0)
        assert len(self.server.agents) == 1

    @invariant()
    def never_two_agents(self) -> None:
        assert len(getattr(self, "server", Server()).agents) <= 1


TestWorkers = Workers.TestCase
TestWorkers.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
