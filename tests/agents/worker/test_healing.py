"""Which callers get an agent from a worker that looks for them: rules of `Healing`, one by one."""

from __future__ import annotations

import pytest

from kit.room_facts import CALLER, agent, dispatch
from vivavoce.agents.worker import healing as h
from vivavoce.agents.worker.room_facts import (
    DispatchedJob,
    DispatchFacts,
    NewDispatch,
    ParticipantFacts,
    RoomFacts,
)

AGAIN = NewDispatch(room="kitchen", agent_name="host", metadata="table 7", attributes={"tier": "gold"}, heals="AD_1")


class Bench:
    """One worker's machine, and the room "kitchen" as its server has it."""

    def __init__(self, *, may_join: bool = True) -> None:
        self.now = 100.0
        self.healing = h.Healing("host", lambda: 0.0, may_join=may_join)
        self.participants: tuple[ParticipantFacts, ...] | None = (CALLER,)
        self.dispatches: list[DispatchFacts] = [dispatch()]
        self.can_take = True
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
                    seen = h.RoomSeen(
                        room=room,
                        participants=self.participants,
                        dispatches=tuple(self.dispatches),
                        can_take=self.can_take,
                    )
                    self.give(seen)
                case _:
                    self.done.append((round(self.now - 100.0, 1), effect))
                    if isinstance(effect, h.DispatchAgain):
                        made = f"AD_{len(self.dispatches) + 1}"
                        self.dispatches.append(dispatch(made, heals=effect.wanted.heals))
                        self.give(h.DispatchMade(room="kitchen", heals=effect.wanted.heals, dispatch_id=made))
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
    bench.until(26.0)
    assert bench.done == [
        (5.5, h.DispatchAgain(wanted=AGAIN)),
        (11.0, h.DeleteDispatch(room="kitchen", dispatch_id="AD_2")),
        (11.0, h.JoinItself(wanted=AGAIN)),
        (16.5, h.DispatchAgain(wanted=AGAIN)),
        (22.0, h.DeleteDispatch(room="kitchen", dispatch_id="AD_2")),
        (22.0, h.JoinItself(wanted=AGAIN)),
    ]


@pytest.mark.parametrize("lost", ["the first dispatch", "the job of it", "the new dispatch"])
def test_a_worker_that_could_take_no_job_now_makes_no_dispatch_until_it_can(lost: str) -> None:
    bench = Bench()
    bench.give(h.LookNow())
    if lost == "the job of it":
        bench.give(h.JobTaken(job_id="AJ_1", room="kitchen", dispatch_id="AD_1"))
        bench.give(h.JobOver(job_id="AJ_1", has_failed=True))
    elif lost == "the new dispatch":
        bench.until(6.0)
        bench.done.clear()
    bench.can_take = False
    bench.until(31.0)
    assert bench.done == []
    bench.can_take = True
    bench.until(33.0)
    wanted = h.JoinItself if lost == "the new dispatch" else h.DispatchAgain
    assert [type(effect) for _, effect in bench.done][-1] is wanted


def test_a_call_whose_job_failed_here_is_dispatched_again_although_its_dispatch_is_new() -> None:
    bench = Bench()
    bench.give(h.LookNow())
    bench.give(h.JobTaken(job_id="AJ_1", room="kitchen", dispatch_id="AD_1"))
    bench.until(0.5)
    bench.give(h.JobOver(job_id="AJ_1", has_failed=True))
    bench.until(8.9)
    assert bench.done == [(3.5, h.DispatchAgain(wanted=AGAIN))]
    bench.until(9.1)
    assert [effect for _, effect in bench.done][2:] == [h.JoinItself(wanted=AGAIN)], "nobody took the new one"


@pytest.mark.parametrize("has_failed", [True, False])
def test_a_look_from_before_the_dispatch_does_not_make_the_end_of_its_job_forgotten(has_failed: bool) -> None:
    bench = Bench()
    bench.dispatches = []
    bench.give(h.LookNow())
    bench.give(h.JobTaken(job_id="AJ_1", room="kitchen", dispatch_id="AD_1"))
    bench.give(h.JobOver(job_id="AJ_1", has_failed=has_failed))
    bench.until(1.0)
    bench.dispatches = [dispatch("AD_1", DispatchedJob(id="AJ_1"))]
    bench.until(15.0)
    wanted = h.DispatchAgain(wanted=AGAIN) if has_failed else h.DeleteDispatch(room="kitchen", dispatch_id="AD_1")
    assert bench.done[0][1] == wanted


def test_a_list_of_rooms_from_before_the_call_does_not_make_a_failed_job_forgotten() -> None:
    bench = Bench()
    bench.give(h.JobTaken(job_id="AJ_1", room="kitchen", dispatch_id="AD_1"))
    bench.give(h.JobOver(job_id="AJ_1", has_failed=True))
    bench.give(h.RoomsListed(rooms=()))
    bench.give(h.LookNow())
    bench.until(3.5)
    assert bench.done == [(3.0, h.DispatchAgain(wanted=AGAIN))]


def test_a_worker_with_a_handler_that_decides_about_jobs_never_joins_by_itself() -> None:
    bench = Bench(may_join=False)
    bench.give(h.LookNow())
    bench.until(40.0)
    assert not any(isinstance(effect, h.JoinItself) for _, effect in bench.done)
    assert sum(isinstance(effect, h.DispatchAgain) for _, effect in bench.done) == 7


@pytest.mark.parametrize(
    ("participants", "dispatch"),
    [
        ((CALLER, agent("agent-AJ_1")), dispatch()),
        ((CALLER, agent("agent-AD_1")), dispatch()),
        ((CALLER, agent("butler", name=None)), dispatch()),
        ((CALLER, agent("butler", name="cook")), dispatch("AD_1", DispatchedJob(id="AJ_1", identity="butler"))),
        ((CALLER,), dispatch("AD_1", DispatchedJob(id="AJ_1", is_over=True))),
        ((CALLER,), dispatch(name="cook")),
        ((), dispatch()),
        ((agent("agent-AJ_9", name="cook"),), dispatch()),
        (None, dispatch()),
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
    bench.participants = (CALLER, agent("agent-AJ_2"))
    bench.dispatches = [dispatch(), dispatch("AD_2", DispatchedJob(id="AJ_2", identity="agent-AJ_2"))]
    bench.give(h.LookNow())
    bench.until(9.0)
    assert bench.done == [(5.5, h.DispatchAgain(wanted=AGAIN))]


def test_a_listed_job_has_time_to_join() -> None:
    bench = Bench()
    bench.dispatches = [dispatch("AD_1", DispatchedJob(id="AJ_1", identity="agent-AJ_1"))]
    bench.give(h.LookNow())
    bench.until(29.0)
    assert bench.done == []
    bench.until(35.0)
    assert [effect for _, effect in bench.done] == [h.DispatchAgain(wanted=AGAIN)]


def test_an_agent_that_has_vanished_is_replaced_sooner() -> None:
    bench = Bench()
    bench.dispatches = [dispatch("AD_1", DispatchedJob(id="AJ_1", identity="agent-AJ_1"))]
    bench.participants = (CALLER, agent("agent-AJ_1"))
    bench.give(h.LookNow())
    bench.until(25.0)
    bench.participants = (CALLER,)
    bench.until(43.0)
    assert bench.done == [(38.0, h.DispatchAgain(wanted=AGAIN))]  # seen to be gone at 30 s


def test_a_dispatch_that_another_worker_has_just_healed_is_left_alone() -> None:
    bench = Bench()
    bench.give(h.LookNow())
    bench.until(4.0)
    bench.dispatches.append(dispatch("AD_2", heals="AD_1"))
    bench.until(15.0)
    assert bench.done == []


def test_a_call_whose_job_failed_here_is_dispatched_again_soon_and_its_ghost_is_removed() -> None:
    bench = Bench()
    bench.give(h.LookNow())
    bench.give(h.JobTaken(job_id="AJ_1", room="kitchen", dispatch_id="AD_1", identity="agent-AJ_1"))
    bench.until(20.0)
    bench.participants = (CALLER, agent("agent-AJ_1"))
    bench.dispatches = [dispatch("AD_1", DispatchedJob(id="AJ_1", identity="agent-AJ_1"))]
    bench.give(h.JobOver(job_id="AJ_1", has_failed=True, has_ghost=True))
    bench.until(21.0)
    bench.participants = (CALLER,)
    bench.until(26.0)
    assert bench.done[0] == (20.0, h.RemoveGhost(room="kitchen", identity="agent-AJ_1"))
    assert bench.done[-1] == (23.0, h.DispatchAgain(wanted=AGAIN))


def test_jobs_that_always_fail_are_given_up() -> None:
    bench = Bench()
    jobs = [dispatch("AD_1", DispatchedJob(id="AJ_1"))]
    jobs += [dispatch(f"AD_{n}", DispatchedJob(id=f"AJ_{n}"), heals="AD_1") for n in (2, 3, 4)]
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
    bench.participants = (CALLER, agent("agent-AJ_1"))
    bench.give(h.JobOver(job_id="AJ_1"))
    assert bench.done == [(0.0, h.DeleteDispatch(room="kitchen", dispatch_id="AD_1"))]


@pytest.mark.parametrize("listed_after", [0.0, 1.0])
def test_a_job_that_lost_its_place_to_another_agent_of_the_call_deletes_nothing(listed_after: float) -> None:
    bench = Bench()
    bench.give(h.JobTaken(job_id="AJ_1", room="kitchen", dispatch_id="AD_1", identity="agent-AD_1"))
    bench.give(h.LookNow())
    if not listed_after:
        bench.participants = (CALLER, agent("agent-AD_1"))
    bench.give(h.JobOver(job_id="AJ_1", is_replaced=True))
    bench.until(listed_after)
    bench.participants = (CALLER, agent("agent-AD_1"))
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
    bench.participants, bench.dispatches = (CALLER, agent("agent-AJ_1")), [dispatch()]
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
    bench.dispatches = [dispatch()]
    bench.until(20.0)
    assert [effect for _, effect in bench.done][0] == h.DispatchAgain(wanted=AGAIN)
