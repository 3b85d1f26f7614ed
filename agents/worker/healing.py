"""Healing: decides which callers have no agent, and how they get one. Pure: no I/O, no clock, no task.

A server never gives a lost dispatch to a worker again. A dispatch is lost if no worker was registered when it was made,
if its worker did not answer, or if its agent died. This machine looks at the rooms with a caller for such dispatches of
its worker's name. It acts only on facts that it has just been given, and waits before it acts:

- A dispatch is left alone for its first seconds, since a server lists an accepted job only 5 s later.
- A dispatch with a listed job, but without an agent in the room, is left alone for longer: the agent is about to join,
  or has left because the call is over. A worker whose job succeeded deletes the dispatch, so that it is not
  listed any more. (A server does not list how a job ended.)
- A job that lost its place to another agent with its identity says nothing about its call.
- Workers wait for times of their own, look again, and leave a dispatch alone that another worker has just healed. If
  two of them act at the same moment, both agents have the identity `agent-<dispatch id>`, and the server keeps one.
- Dispatches without a name, which a server makes for rooms that request no agent by name, are healed as others are.
- A worker that could take no job now leaves the dispatch to the others, since nobody might take the new one.

A dispatch is healed by a new dispatch; a server offers one without a name to workers without a name (livekit-server
1.13.5, `tests/e2e/room/test_server_api.py`). If that leads to no job either, the worker joins the room itself, and so
on in turn. A worker need not wait for what it knows: that its own job has failed, or when it made a dispatch itself. A
call whose jobs fail is given up after a few.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import assert_never

from vivavoce.agents.worker.room_facts import DispatchFacts, NewDispatch, ParticipantFacts, RoomFacts

LIST_INTERVAL = 2.0
"""Seconds between two lists of the rooms."""

LOOK_AGAIN = 10.0
"""Seconds after which a room is looked at again, if nothing seemed wrong and its callers are the same."""

LOOK_AT_OWN = 60.0
"""The same time for a room in which this worker has an agent."""

NEW_ROOM = 15.0
"""Seconds for which a room is looked at even if the server counts no caller in it: the count is seconds late."""

LISTED_WITHIN = 5.5
"""Seconds after which a server has listed the job of a new dispatch, if there is one: it asks no worker after 3 s."""

HEALED_WITHIN = 10.0
"""Seconds from a dispatch of another worker, or one whose job failed, until the next one is made."""

JOINS_WITHIN = 30.0
"""Seconds from the listing of a job until its agent must be in the room."""

GONE_FOR = 8.0
"""Seconds after which an agent that has left the room counts as dead, unless its worker has deleted the dispatch."""

AFTER_FAILURE = 3.0
"""Seconds after the failure of a job of this worker until its call is dispatched again."""

SPREAD = 1.0
"""The longest random wait of a worker, in seconds, which keeps several workers from acting at the same time."""

MAX_JOBS = 3
"""The number of new dispatches of a call whose jobs may fail before the call is given up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LookNow:
    """The worker has registered, or has lost a job: list the rooms now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomsListed:
    """The rooms that are open."""

    rooms: tuple[RoomFacts, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomSeen:
    """The facts of one room; `participants` is None if the room is closed.

    Args:
        can_take: Whether the worker could take a job of the room now.
    """

    room: str
    participants: tuple[ParticipantFacts, ...] | None
    dispatches: tuple[DispatchFacts, ...] = ()
    can_take: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class LookFailed:
    """The server did not return the facts of a room."""

    room: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DispatchMade:
    """This worker has just made a dispatch.

    Args:
        heals: The first dispatch of the call.
    """

    room: str
    heals: str
    dispatch_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JobTaken:
    """This worker runs a job.

    Args:
        dispatch_id: The first dispatch of its call.
        identity: The identity of its agent.
    """

    job_id: str
    room: str
    dispatch_id: str
    identity: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOver:
    """A job of this worker is over.

    Args:
        has_ghost: Whether its agent is left in the room, since its process has died; no other code removes it.
        is_replaced: Whether another agent with its identity took its place in the room.
    """

    job_id: str
    has_failed: bool = False
    has_ghost: bool = False
    is_replaced: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TimePassed:
    """The time of `next_deadline()` has come."""


Input = LookNow | RoomsListed | RoomSeen | LookFailed | DispatchMade | JobTaken | JobOver | TimePassed


@dataclass(frozen=True, slots=True, kw_only=True)
class ListRooms:
    """Report the open rooms by `RoomsListed`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LookAt:
    """Report the facts of a room by `RoomSeen`."""

    room: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DispatchAgain:
    """Make a dispatch in place of a lost one."""

    wanted: NewDispatch


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinItself:
    """Run the job in this worker, by a token of its own, since dispatches lead to no job."""

    wanted: NewDispatch


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveGhost:
    """Remove a dead agent from a room."""

    room: str
    identity: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteDispatch:
    """Delete a dispatch whose call is over, so that no worker takes it for a lost one."""

    room: str
    dispatch_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GiveUp:
    """Write to the log that a dispatch was healed in vain."""

    room: str
    dispatch_id: str


Effect = ListRooms | LookAt | DispatchAgain | JoinItself | RemoveGhost | DeleteDispatch | GiveUp


@dataclass(slots=True)
class _Job:
    room: str
    root: str
    identity: str


@dataclass(slots=True)
class _Call:
    """One dispatch and those made in its place, as this worker knows them."""

    own_wait: float
    attempts: int = 0
    """The number of dispatches in a row by which this worker healed the call without getting a job."""
    first_seen: dict[str, float] = field(default_factory=dict)
    """The dispatches, with the time when this worker made or first saw each."""
    own: set[str] = field(default_factory=set)
    """Dispatches that this worker has made."""
    absent_since: float | None = None
    """The time since which the agent is missing in the room."""
    was_live: bool = False
    """Whether its agent has been seen in the room."""
    healed_at: float | None = None
    failed_at: float | None = None
    """The time when a job of this worker for the call failed."""
    is_over: bool = False
    """Whether a job of this worker for it has succeeded."""
    is_given_up: bool = False

    @property
    def has_news(self) -> bool:
        """Whether this worker knows the end of a job of the call."""
        return self.is_over or self.failed_at is not None

    def knows_vain(self, dispatch: DispatchFacts) -> bool:
        """Return whether a dispatch of this worker has no job so far."""
        return dispatch.id in self.own and not dispatch.jobs


@dataclass(slots=True)
class _Room:
    sid: str
    """The id of the room; "" until it is listed."""
    since: float
    callers: int = 0
    is_asked: bool = False
    look_at: float = 0.0
    """The time to look at the room next, unless its callers change."""
    calls: dict[str, _Call] = field(default_factory=dict)


class Healing:
    """Decides for one worker.

    Args:
        agent_name: The name that the worker registers.
        jitter: Returns 0 … 1, to spread the workers' times.
        may_join: Whether the worker may take jobs without an offer: no handler decides about them.
    """

    def __init__(self, agent_name: str, jitter: Callable[[], float], *, may_join: bool = True) -> None:
        self._agent_name = agent_name
        self._may_join = may_join
        self._jitter = jitter
        self._rooms: dict[str, _Room] = {}
        self._jobs: dict[str, _Job] = {}
        self._dead: dict[tuple[str, str], float] = {}
        """The time until which a dead agent may still be listed, by room and identity. If the call was healed before,
        its successor has the same identity.
        """
        self._list_at: float | None = None
        self._effects: list[Effect] = []

    def handle(self, input: Input, *, now: float) -> list[Effect]:
        """Take one input and return the effects in order."""
        match input:
            case LookNow():
                self._list(now)
            case RoomsListed(rooms=rooms):
                self._take_list(rooms, now)
            case RoomSeen():
                self._take_room(input, now)
            case LookFailed(room=name):
                if (room := self._rooms.get(name)) is not None:
                    room.is_asked, room.look_at = False, now + LIST_INTERVAL
            case DispatchMade():
                self._made(input, now)
            case JobTaken():
                self._jobs[input.job_id] = _Job(input.room, input.dispatch_id, input.identity)
            case JobOver():
                self._job_over(input, now)
            case TimePassed():
                if self._list_at is not None and self._list_at <= now:
                    self._list(now)
                self._look_at_due_rooms(now)
            case _:
                assert_never(input)
        effects, self._effects = self._effects, []
        return effects

    def next_deadline(self) -> float | None:
        """Return when `TimePassed` is due, or None before the first `LookNow`."""
        looks = [room.look_at for room in self._rooms.values() if not room.is_asked and self._is_of_interest(room)]
        return min([*looks, *([] if self._list_at is None else [self._list_at])], default=None)

    # --- looking

    def _list(self, now: float) -> None:
        self._list_at = now + LIST_INTERVAL
        self._effects.append(ListRooms())

    def _take_list(self, rooms: Iterable[RoomFacts], now: float) -> None:
        open_rooms = {room.name: room for room in rooms}
        self._rooms = {name: room for name, room in self._rooms.items() if _is_open(room, open_rooms.get(name), now)}
        self._dead = {place: until for place, until in self._dead.items() if until > now}
        for name, facts in open_rooms.items():
            room = self._rooms.setdefault(name, _Room(facts.sid, now, look_at=now))
            room.sid = facts.sid
            if room.callers != facts.callers:
                room.callers, room.look_at = facts.callers, now
        self._look_at_due_rooms(now)

    def _is_of_interest(self, room: _Room) -> bool:
        return room.callers > 0 or room.look_at <= room.since + NEW_ROOM

    def _look_at_due_rooms(self, now: float) -> None:
        for name, room in self._rooms.items():
            if room.look_at <= now and not room.is_asked and self._is_of_interest(room):
                room.is_asked = True
                self._effects.append(LookAt(room=name))

    def _take_room(self, seen: RoomSeen, now: float) -> None:
        room = self._rooms.get(seen.room)
        if room is None:
            return
        is_own = any(job.room == seen.room for job in self._jobs.values())
        room.is_asked, room.look_at = False, now + (LOOK_AT_OWN if is_own else LOOK_AGAIN)
        if seen.participants is None:
            del self._rooms[seen.room]
            return
        if not any(one.is_caller for one in seen.participants):
            room.look_at = now + LIST_INTERVAL if now < room.since + NEW_ROOM else room.look_at
            return
        families: dict[str, list[DispatchFacts]] = {}
        for dispatch in seen.dispatches:
            if dispatch.agent_name == self._agent_name:
                families.setdefault(dispatch.heals or dispatch.id, []).append(dispatch)
        # These facts may be from before a dispatch for which this worker has already seen the end of the job.
        room.calls = {root: call for root, call in room.calls.items() if root in families or call.has_news}
        for root, family in families.items():
            call = room.calls.setdefault(root, _Call(self._jitter() * SPREAD))
            for dispatch in family:
                call.first_seen.setdefault(dispatch.id, now)
            self._judge(room, root, family, self._live_agents(seen, families, root, now), seen, now)

    # --- deciding

    def _live_agents(self, seen: RoomSeen, families: dict[str, list[DispatchFacts]], root: str, now: float) -> set[str]:
        """Return the agents that have the call, or may have it: a job is listed late, so its agent may be unknown."""
        assert seen.participants is not None, "the room is open"
        others = {
            identity for other, family in families.items() if other != root for identity in _identities(other, family)
        }
        own = _identities(root, families[root])
        return {
            one.identity
            for one in seen.participants
            if one.is_agent
            and self._dead.get((seen.room, one.identity), now) <= now
            and (one.identity in own or (one.agent_name in (None, self._agent_name) and one.identity not in others))
        }

    def _judge(
        self, room: _Room, root: str, family: list[DispatchFacts], live: set[str], seen: RoomSeen, now: float
    ) -> None:
        call = room.calls[root]
        if live or any(job.root == root and job.room == seen.room for job in self._jobs.values()):
            call.absent_since, call.failed_at, call.is_over = None, None, False
            call.was_live, call.attempts = call.was_live or bool(live), 0
            return
        if call.is_over:
            for dispatch in family:
                self._effects.append(DeleteDispatch(room=seen.room, dispatch_id=dispatch.id))
            return
        if any(job.is_over for dispatch in family for job in dispatch.jobs) or call.is_given_up:
            return
        if call.absent_since is None:
            call.absent_since = now
        due = self._due(call, root, family)
        if now < due:
            room.look_at = min(room.look_at, due)
        elif sum(1 for dispatch in family if dispatch.id != root and dispatch.jobs) >= MAX_JOBS:
            call.is_given_up = True
            self._effects.append(GiveUp(room=seen.room, dispatch_id=root))
        elif not seen.can_take:
            room.look_at = min(room.look_at, now + LIST_INTERVAL)
        else:
            self._heal(room, root, family, seen.room, now)

    def _due(self, call: _Call, root: str, family: list[DispatchFacts]) -> float:
        """Return the time from which the call may be healed, if its agent stays away."""
        assert call.absent_since is not None, "an agent is missing"
        times = [] if call.healed_at is None else [call.healed_at + LISTED_WITHIN]
        for dispatch in family:
            if dispatch.id != root:
                limit = LISTED_WITHIN if call.knows_vain(dispatch) else HEALED_WITHIN
                times.append(call.first_seen[dispatch.id] + limit)
            elif call.failed_at is None:
                times.append(call.first_seen[root] + LISTED_WITHIN)
        if call.failed_at is not None:
            times.append(call.failed_at + AFTER_FAILURE)
        elif any(dispatch.jobs for dispatch in family):
            times.append(call.absent_since + (GONE_FOR if call.was_live else JOINS_WITHIN))
        if call.failed_at is not None or any(call.knows_vain(dispatch) for dispatch in family):
            return max(times)  # no other worker acts as early
        return max(times) + call.own_wait

    def _heal(self, room: _Room, root: str, family: list[DispatchFacts], name: str, now: float) -> None:
        first = next((dispatch for dispatch in family if dispatch.id == root), family[0])
        wanted = NewDispatch(
            room=name,
            agent_name=self._agent_name,
            metadata=first.metadata,
            attributes=first.attributes,
            heals=root,
        )
        call = room.calls[root]
        in_vain = [dispatch for dispatch in family if dispatch.id != root and not dispatch.jobs]
        for dispatch in in_vain:  # it was made long ago: no worker takes it any more
            self._effects.append(DeleteDispatch(room=name, dispatch_id=dispatch.id))
        call.attempts = call.attempts + 1 if in_vain or call.attempts else 0
        joins = self._may_join and call.attempts % 2 == 1
        self._effects.append(JoinItself(wanted=wanted) if joins else DispatchAgain(wanted=wanted))
        call.healed_at, call.failed_at, call.own_wait = now, None, self._jitter() * SPREAD
        room.look_at = min(room.look_at, now + LIST_INTERVAL)

    def _made(self, made: DispatchMade, now: float) -> None:
        room = self._rooms.get(made.room)
        if room is not None and (call := room.calls.get(made.heals)) is not None:
            call.first_seen[made.dispatch_id] = now
            call.own.add(made.dispatch_id)

    # --- own jobs

    def _job_over(self, over: JobOver, now: float) -> None:
        job = self._jobs.pop(over.job_id, None)
        if job is None:
            return
        if job.identity and not over.is_replaced:  # a server lists an agent for a moment after it has left
            self._dead[job.room, job.identity] = now + AFTER_FAILURE
        if over.has_ghost and job.identity:  # at once: soon a successor may have the same identity
            self._effects.append(RemoveGhost(room=job.room, identity=job.identity))
        room = self._rooms.setdefault(job.room, _Room("", now, look_at=now))  # it may not have been listed yet
        call = room.calls.setdefault(job.root, _Call(self._jitter() * SPREAD))
        if over.is_replaced:
            pass  # the other agent has the call; it is healed if that one is lost
        elif over.has_failed:
            call.failed_at = now
        else:
            call.is_over = True
            if not room.is_asked:  # now, since a draining worker is about to leave, and another one would heal the call
                room.is_asked = True
                self._effects.append(LookAt(room=job.room))
        room.look_at = min(room.look_at, now)


def _is_open(room: _Room, listed: RoomFacts | None, now: float) -> bool:
    """Return whether a list of rooms still has this room. A list from before it opened does not count."""
    if listed is None:
        return not room.sid and now < room.since + NEW_ROOM
    return room.sid in ("", listed.sid)


def _identities(root: str, family: Iterable[DispatchFacts]) -> set[str]:
    """Return the identities that the agents of a call have."""
    return {f"agent-{root}", *(job.identity for dispatch in family for job in dispatch.jobs if job.identity)}
