"""Speech: one speech of the agent, from its request to its end."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import isfinite
from typing import Literal

from vivavoce.agents.turn.inputs import SpeechKind, SpeechRequested
from vivavoce.agents.turn.user.burst import Burst
from vivavoce.agents.turn.user.turn import ClosedTurn

Phase = Literal["queued", "lapsed", "prepared", "active", "tools", "ending"]


@dataclass(slots=True)
class Speech:
    """One `say`, `reply` or answer. Having the floor and being heard are two facts: `phase` and `playing_since`.

    Args:
        order: Arrival; ties of priority go by it.
        asked_at: The time of the request; for the answer to a user turn, the onset of the turn.
        asked: The request; None for the answer to a user turn.
        answers: The user turn that it answers; None if it is not an answer.
        phase: Waiting for the floor: idle, out of date since the tool call that asked for it has settled, or at work
            already; on the floor; waiting for its tools without it; cancelled, or played to its end.
        has_begun: Whether it got the floor or was let generate. It then reports its end itself.
        playing_since: The time of the present step's first frame; None before it and after the last frame.
        audible_since: The time of the first frame of all.
        paused_at: The time since which its playout is held, before its beginning or in the middle.
        held_for: Seconds for which sounds without a word have held it since the user's last word.
        has_used_tools: Whether a tool call of it has started.
        has_foreword: Whether other speech was heard since it was asked for, so that its turn does not go on any more.
        is_owed: Whether no words take it back until its first sound: its turn was cut by a limit, or the answer is
            kept.
        is_kept: Whether the turn has merged as often as it may after long pauses; a voice may still hold the answer.
        is_withdrawn: Whether its turn went on, so that its outcome is not the turn's.
        behind: The task, by its handoff, that has taken the conversation since; "" for none. Until it is over, the
            speech neither gets the floor nor counts.
    """

    speech_id: str
    kind: SpeechKind
    interruptible: bool
    priority: int
    order: int
    asked_at: float
    asked: SpeechRequested | None = field(default=None, repr=False)
    answers: ClosedTurn | None = None
    has_foreword: bool = False
    phase: Phase = field(default="queued", init=False)
    has_begun: bool = field(default=False, init=False)
    playing_since: float | None = field(default=None, init=False)
    audible_since: float | None = field(default=None, init=False)
    paused_at: float | None = field(default=None, init=False)
    held_for: float = field(default=0.0, init=False)
    has_used_tools: bool = field(default=False, init=False)
    is_owed: bool = field(default=False, init=False)
    is_kept: bool = field(default=False, init=False)
    is_withdrawn: bool = field(default=False, init=False)
    behind: str = field(default="", init=False)

    # --- the floor

    @property
    def has_floor(self) -> bool:
        return self.phase == "active"

    @property
    def waits(self) -> bool:
        """Whether it waits for the floor."""
        return self.phase in ("queued", "lapsed", "prepared")

    @property
    def is_over(self) -> bool:
        """Whether it is cancelled, or played to its end; its report is still to come."""
        return self.phase == "ending"

    def ask_anew(self, at: float) -> None:
        """Count an application's request as made at that time, unless the speech has begun."""
        if self.asked is not None and not self.has_begun and isfinite(self.asked_at):
            self.asked_at = at

    def take_floor(self) -> None:
        """Take the floor: generate and play."""
        assert self.waits
        self.phase, self.has_begun = "active", True

    def prepare(self) -> None:
        """Generate, and wait for the floor to play."""
        assert self.phase == "queued"
        self.phase, self.has_begun = "prepared", True

    def lapse(self) -> None:
        """Mark the speech as out of date, since the tool call that asked for it is over."""
        assert self.phase == "queued"
        self.phase = "lapsed"

    def yield_floor(self) -> None:
        """Give the floor to speech of its hook, and wait behind that."""
        assert self.phase in ("active", "prepared")
        self._leave("queued")

    def await_tools(self) -> None:
        """Leave the floor until its tools are done."""
        assert self.has_begun
        assert self.phase in ("active", "prepared", "queued")
        self._leave("tools")

    def want_floor(self) -> None:
        """Wait for the floor again: its tools are done."""
        assert self.phase == "tools"
        self.phase = "queued"

    def finish(self) -> None:
        """Leave the floor for good, played to its end."""
        assert self.has_floor
        self._leave("ending")

    def stop(self, *, is_withdrawn: bool = False) -> None:
        """End the speech, in any phase.

        Args:
            is_withdrawn: Whether its turn goes on.
        """
        self._leave("ending")
        self.is_withdrawn = is_withdrawn

    def _leave(self, phase: Phase) -> None:
        self.phase = phase
        self.playing_since = self.paused_at = None  # it sounds no more and nothing holds it

    def queue_behind(self, order: int) -> None:
        """Take another place in the queue."""
        assert self.waits
        self.order = order

    def stay_behind(self, task: str) -> None:
        """Wait until that task is over; a task is named by its handoff."""
        assert self.has_begun
        self.behind = task

    def return_from(self, task: str) -> None:
        """Go on, if that task is the one that the speech waits for."""
        if self.behind == task:
            self.behind = ""

    # --- the sound

    def sound(self, at: float) -> None:
        """Note that the speech is heard from `at` on."""
        assert not self.is_playing
        self.playing_since = at
        if self.audible_since is None:
            self.audible_since = at

    def fall_silent(self) -> None:
        """Note that the speech is not heard, for now."""
        self.playing_since = None

    def hold(self, at: float) -> None:
        """Hold the playout from `at` on; if it is held already, count from there."""
        self.paused_at = at

    def resume(self) -> None:
        """Let its playout go on."""
        assert self.is_paused
        self.paused_at = None

    def count_hold(self, burst: Burst, now: float) -> None:
        """Count the time for which that sound has held it, unless the sound had words."""
        assert self.paused_at is not None
        if not burst.has_words:
            self.held_for += max(0.0, burst.sounded_until(now) - max(self.paused_at, burst.started_at))

    def forgive_holds(self) -> None:
        """Count holds anew: the user has said words."""
        self.held_for = 0.0

    # --- its rights

    def protect(self) -> None:
        """Let neither a voice nor a call without force cut it from now on."""
        self.interruptible = False

    def owe(self) -> None:
        """Let no words take it back before it is heard: its turn was cut by a limit."""
        self.is_owed = True

    def keep(self) -> None:
        """Let no words take it back before it is heard: its turn has merged too often."""
        self.is_owed = self.is_kept = True

    def use_tools(self) -> None:
        """Note that its tools run: new words are a new turn."""
        self.has_used_tools = True

    def follow_sound(self) -> None:
        """Note that other speech is heard before it."""
        self.has_foreword = True

    def amend(self, text: str) -> None:
        """Correct the words that it answers."""
        assert self.answers is not None
        self.answers = replace(self.answers, text=text)

    # --- facts

    @property
    def turn_id(self) -> str:
        """The user turn that the speech answers; "" if it is not an answer."""
        return "" if self.answers is None else self.answers.turn_id

    @property
    def hook_of(self) -> str:
        """The answer whose turn's hook requested this speech; the speech is heard before it."""
        return "" if self.asked is None else self.asked.hook_of

    @property
    def speaks_over(self) -> bool:
        """Whether the speech was asked for with `when_busy="interrupt"`.

        If it was asked for in the caller's turn, voices that began before its first sound neither hold nor cut it.
        """
        return self.asked is not None and self.asked.when_busy == "interrupt"

    @property
    def is_whole(self) -> bool:
        """Whether all of its words are known before it is spoken."""
        return self.kind == "say" and self.asked is not None and self.asked.is_whole

    @property
    def by_hook(self) -> bool:
        """Whether a hook of an agent that comes or goes asked for the speech."""
        return self.asked is not None and self.asked.by_hook

    @property
    def is_playing(self) -> bool:
        """Whether it sounds, or is paused in the middle."""
        return self.playing_since is not None

    @property
    def was_audible(self) -> bool:
        """Whether any frame of it was played."""
        return self.audible_since is not None

    @property
    def is_paused(self) -> bool:
        """Whether the playout is held. That does not mean that it will continue."""
        return self.paused_at is not None

    @property
    def is_unheard_answer(self) -> bool:
        """Whether the speech answers a user turn that may still go on: it was not heard, has called no tool and is not
        protected."""
        is_begun = self.was_audible or self.has_used_tools or self.has_foreword
        return self.kind == "turn" and self.interruptible and not is_begun and not self.is_owed

    @property
    def is_for_caller(self) -> bool:
        """Whether the speech is the answer to a user turn, or of a hook of that turn."""
        return self.kind == "turn" or bool(self.hook_of)

    def goes_before(self, order: int) -> bool:
        """Return whether the speech comes before a request without priority at that place in the queue."""
        return (-self.priority, self.order) <= (0, order)
