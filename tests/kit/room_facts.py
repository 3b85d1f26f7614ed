"""Facts of a room with a caller, for tests of healing."""

from __future__ import annotations

from vivavoce.agents.worker.room_facts import DispatchedJob, DispatchFacts, ParticipantFacts

CALLER = ParticipantFacts(identity="caller")


def agent(identity: str, name: str | None = "host") -> ParticipantFacts:
    """Return an agent in a room."""
    return ParticipantFacts(identity=identity, is_agent=True, is_caller=False, agent_name=name)


def dispatch(id: str = "AD_1", *jobs: DispatchedJob, heals: str = "", name: str = "host") -> DispatchFacts:
    """Return a dispatch of the room "kitchen"."""
    return DispatchFacts(
        id=id, agent_name=name, metadata="table 7", attributes={"tier": "gold"}, heals=heals, jobs=jobs
    )
