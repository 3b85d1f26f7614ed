"""WakeUps: in a long silence the user counts as away, is woken up level by level, and the session closes.

The silence counts from the last event that was no noise: the user's last words, the end of the agent's last speech or
tool, the caller's coming. While either side is busy nothing is due. A deadline that passed while mere noise was heard
is acted on when the turn of that noise is dropped. The end of a tool that an interrupted speech left running restarts
the wait, as speech does, or its late answer would meet a wake-up. A caller who comes back restarts the wait, not the
level.
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
    """Counts in the user's silence, so that the level and being away end with it.

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
        self._has_tools = False
        self._is_paused = False
        self._quiet_from = 0.0
        self._waiting_from = 0.0

    # --- events that break the silence

    def begin(self, now: float) -> None:
        """The session has started: from now on silence counts."""
        self._quiet_from = now

    def caller_came(self, now: float) -> None:
        """The caller is there, and may be silent."""
        if not self._is_present:
            self._is_present = True
            self._quiet_from = now

    def caller_left(self) -> None:
        """No caller is there to be woken up. After a hangup the next caller is a new one, and so are the levels."""
        self._is_present = False
        if self._is_hung_up_on:
            self._user.silence.restart_levels()

    def tools_running(self, event: i.ToolsRunning, now: float) -> None:
        """Tools have begun to run, or the last one has ended."""
        if self._has_tools and not event.is_any:
            self._quiet_from = now
        self._has_tools = event.is_any

    def changed(self, event: i.WakeUpChanged | i.WakeUpPaused | i.WakeUpResumed | i.WakeUpReset, now: float) -> None:
        """The application changes the wake-up, pauses it, resumes it with a full wait, or restarts it."""
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
        """Whether the silence has outlasted its last level, and that ends the call."""
        wake_up = self._wake_up
        return wake_up is not None and wake_up.then == "hangup" and self._user.silence.level > wake_up.repeat

    # --- deadlines

    @property
    def is_quiet(self) -> bool:
        """Whether the caller is there and neither side does anything."""
        return self._is_present and not self._has_tools and self._moments.is_silent

    def deadlines(self) -> Iterator[Deadline]:
        """Yield when silence means that the user is away, and when a wake-up is due; for the time when both are
        idle.
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
    """Return the seconds from one level, 0 for none yet, to the next; None after the last."""
    if level < wake_up.repeat or (level == wake_up.repeat and wake_up.then is not None):
        return wake_up.after * wake_up.backoff**level
    return None
