"""WakeUps: in a long silence, counts the user as away, wakes the user up level by level, and closes the session.

The silence counts from the last event that was no noise: the user's last words, the end of the agent's last speech or
tool, or of a hold, the caller's coming. While either side is busy, or the agent may not speak, nothing is due. A
deadline that passed while mere noise was heard is acted on when the turn of that noise is dropped. The end of a tool
that an interrupted speech left running restarts the wait, as speech does, or its late answer would meet a wake-up. A
caller who comes back restarts the wait, not the level.
"""

from __future__ import annotations

from collections.abc import Iterator

from vivavoce.agents.turn import inputs as i
from vivavoce.agents.turn.deadlines import Deadline
from vivavoce.agents.turn.effects import CloseSession, Effect, HangUp, WakeUser
from vivavoce.agents.turn.floor.moments import Moments
from vivavoce.agents.turn.options import TurnOptions, WakeUp
from vivavoce.agents.turn.user.user_side import UserSide


class WakeUps:
    """Counts in the user's silence: the level and the absence end with it.

    Args:
        out: Effects go here.
    """

    def __init__(self, options: TurnOptions, moments: Moments, user: UserSide, out: list[Effect]) -> None:
        self._wake_up = options.wake_up
        self._away_after = options.away_after
        self._moments = moments
        self._user = user
        self._out = out
        self._is_present = False
        self._suspended: set[str] = set()
        """Why a silence is not the caller's: tools run, the caller is on hold, or the agent may not speak."""
        self._is_paused = False
        self._quiet_from = 0.0
        self._waiting_from = 0.0

    # --- events that break the silence

    def begin(self, now: float) -> None:
        """Note that the session has started: silence counts from now on."""
        self._quiet_from = now

    def caller_came(self, now: float) -> None:
        """Note that the caller is there, and may be silent."""
        if not self._is_present:
            self._is_present = True
            self._quiet_from = now

    def caller_left(self) -> None:
        """Note that no caller is there. After a hangup the next caller is a new one, and the levels begin anew."""
        self._is_present = False
        if self._is_hung_up_on:
            self._user.silence.restart_levels()

    def tools_running(self, event: i.ToolsRunning, now: float) -> None:
        """Note that tools have begun to run, or that the last one has ended."""
        self._suspend("tools", event.is_any, now)

    def caller_held(self, event: i.CallerHeld, now: float) -> None:
        """Note that the caller is on hold, or no more."""
        self._suspend("hold", event.is_held, now)

    def speech_withheld(self, is_withheld: bool, now: float) -> None:
        """Note that no speech of the agent may begin, or that it may again."""
        self._suspend("withheld", is_withheld, now)

    def _suspend(self, reason: str, is_on: bool, now: float) -> None:
        if is_on:
            self._suspended.add(reason)
        elif reason in self._suspended:
            self._suspended.remove(reason)
            self._quiet_from = now

    def changed(self, event: i.WakeUpChanged | i.WakeUpPaused | i.WakeUpResumed | i.WakeUpReset, now: float) -> None:
        """Change, pause, resume (with a full wait) or restart the wake-up, by the application's request."""
        match event:
            case i.WakeUpChanged():
                self._wake_up = event.wake_up
                self._user.silence.restart_levels()
                self._waiting_from = now
            case i.WakeUpPaused():
                self._is_paused = True
            case i.WakeUpResumed() if self._is_paused:
                self._is_paused = False
                self._waiting_from = now
            case i.WakeUpReset():
                self._user.silence.restart_levels()
                self._waiting_from = now

    @property
    def _is_hung_up_on(self) -> bool:
        """Whether the silence has outlasted its last level, and the call ends by that."""
        wake_up = self._wake_up
        return wake_up is not None and wake_up.then == "hangup" and self._user.silence.level > wake_up.repeat

    # --- deadlines

    @property
    def is_quiet(self) -> bool:
        """Whether the caller is there, the silence is the caller's, and neither side is active."""
        return self._is_present and not self._suspended and self._moments.is_silent

    def deadlines(self) -> Iterator[Deadline]:
        """Yield the time when silence means that the user is away, and the time of the next wake-up, while both sides
        are idle.
        """
        silence = self._user.silence
        quiet_since = max(self._moments.silent_since, self._quiet_from)
        if self._away_after is not None and not silence.is_away:
            yield Deadline(quiet_since + self._away_after, self._on_away)
        if self._wake_up is None or self._is_paused:
            return
        wait = _wait(self._wake_up, silence.level)
        if wait is not None:
            yield Deadline(max(quiet_since, self._waiting_from) + wait, self._on_wake_up)

    def _on_away(self, now: float) -> None:
        self._user.silence.become_away()

    def _on_wake_up(self, now: float) -> None:
        level = self._user.silence.reach_next_level()
        self._waiting_from = now
        assert self._wake_up is not None
        if self._is_hung_up_on:
            self._out.append(HangUp())
        elif level > self._wake_up.repeat:
            self._out.append(CloseSession("user_away"))
        else:
            self._out.append(WakeUser(level))


def _wait(wake_up: WakeUp, level: int) -> float | None:
    """Return the seconds from one level, 0 at the start, to the next; None after the last."""
    if level < wake_up.repeat or (level == wake_up.repeat and wake_up.then is not None):
        return wake_up.after * wake_up.backoff**level
    return None
