"""ConversationState: the states of agent and user, derived from the floor and the user's turn."""

from __future__ import annotations

from typing import Literal

from vivavoce.agents.states import AGENT_TRANSITIONS, AgentState, UserState
from vivavoce.agents.turn.effects import Effect, SetAgentState, SetUserState
from vivavoce.agents.turn.floor.floor import Floor
from vivavoce.agents.turn.user.user_side import UserSide

SessionPhase = Literal["new", "starting", "started", "closing", "closed"]


class ConversationState:
    """Reports changes only, along the tables of `agents.states`, with times that never run backwards for either.

    A report on one side's sound may come late, with a time of the past. Then a state that is about the sound of the
    other side, `listening` above all, is dated when that sound began, if that is later.

    Args:
        out: Effects go here.
    """

    def __init__(self, floor: Floor, user: UserSide, out: list[Effect]) -> None:
        self._floor = floor
        self._user = user
        self._out = out
        self.agent = AgentState.IDLE
        self.user = UserState.IDLE
        self._agent_at = self._user_at = float("-inf")
        self._has_left_starting = False

    def begin(self, now: float) -> None:
        """Note that the session starts: no change is reported for a time before it."""
        self._agent_at = self._user_at = now

    def update(self, phase: SessionPhase, at: float, now: float) -> None:
        """Compare with the states reported last, and report a change as of `at`, never later than `now`."""
        agent = self._derive_agent(phase)
        if agent is not self.agent:
            assert agent in AGENT_TRANSITIONS[self.agent], f"{self.agent} -> {agent}"
            self._has_left_starting |= self.agent is AgentState.STARTING
            self._agent_at = max(at, self._agent_at, min(self._sound_since(agent), now))
            self._out.append(SetAgentState(self.agent, agent, self._agent_at))
            self.agent = agent
        user = self._derive_user()
        if user is not self.user:
            self._user_at = max(at, self._user_at, min(self._sound_since(user), now))
            self._out.append(SetUserState(self.user, user, self._user_at))
            self.user = user

    def _sound_since(self, state: AgentState | UserState) -> float:
        """Return when the sound began that this state is about, before which it is not dated."""
        turn, active, onset = self._user.turn, self._floor.active, self._user.onset
        since = None
        if state is UserState.LISTENING and active is not None:
            since = active.playing_since
        elif state is AgentState.LISTENING:
            since = onset if turn is None else turn.began_at
        elif state is UserState.SPEAKING:
            since = onset
        return float("-inf") if since is None else since

    def _derive_agent(self, phase: SessionPhase) -> AgentState:
        if phase in ("closing", "closed"):
            return AgentState.CLOSED if phase == "closed" else AgentState.CLOSING
        active = self._floor.active
        if active is not None and active.is_playing:
            return AgentState.SPEAKING
        if (active is not None and active.kind != "say") or self._floor.owes_answer:
            return AgentState.THINKING
        if self._user.is_active:
            return AgentState.LISTENING
        is_starting = phase == "starting" and not self._has_left_starting
        return AgentState.STARTING if is_starting else AgentState.IDLE

    def _derive_user(self) -> UserState:
        turn, active = self._user.turn, self._floor.active
        is_heard_without_vad = turn is not None and turn.burst is None and bool(turn.interim)
        if self._user.has_voice or is_heard_without_vad:
            return UserState.SPEAKING
        if active is not None and active.is_playing:
            return UserState.LISTENING
        return UserState.AWAY if self._user.silence.is_away else UserState.IDLE
