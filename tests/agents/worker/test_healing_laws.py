"""Laws of `Healing`: several workers on one server lose offers, jobs and agents, and a caller gets one agent."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kit.room_facts import CALLER, agent, dispatch
from vivavoce.agents.worker import healing as h
from vivavoce.agents.worker.room_facts import DispatchedJob, RoomFacts


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

    def _make(self, heals: str, worker: int = 0) -> str:
        self.number += 1
        name = f"AD_{self.number}"
        self.server.dispatches[name] = self.now
        if heals:
            self.server.heals[name] = heals
        if not self.is_deaf:
            self._run(name, worker)
        return name

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
            dispatches.append(dispatch(name, *jobs, heals=self.server.heals.get(name, "")))
        agents = tuple(agent(identity) for identity in self.server.agents)
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
                    made = self._make(wanted.heals, (index + 1) % self.COUNT)
                    self._give(index, h.DispatchMade(room="kitchen", heals=wanted.heals, dispatch_id=made))
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
