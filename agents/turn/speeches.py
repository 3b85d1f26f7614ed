"""Speeches: requests for the floor, who gets it next, and what a speech reports of itself until its end.

A handoff waits in the same queue, so that what was said before it is asked for is spoken before it.
"""

from __future__ import annotations

from collections import Counter

from vivavoce.agents.turn import inputs as i
from vivavoce.agents.turn.effects import (
    BeginHandoff,
    CancelSpeech,
    CloseSession,
    DropHandoff,
    Effect,
    GrantFloor,
)
from vivavoce.agents.turn.floor import Floor
from vivavoce.agents.turn.hush import Hush
from vivavoce.agents.turn.interruption import Interruption


class Speeches:
    """Moves speeches through the floor. Counts failures: a conversation that fails again and again is closed."""

    def __init__(
        self, floor: Floor, interruption: Interruption, hush: Hush, out: list[Effect], *, max_errors: int
    ) -> None:
        self._floor = floor
        self._hush = hush
        self._interruption = interruption
        self._out = out
        self._max_errors = max_errors
        self._failures: Counter[str] = Counter()
        self._has_given_up = False

    def requested(self, event: i.SpeechRequested) -> None:
        """`say()` or `reply()`: it waits, takes the floor, or is not wanted."""
        floor = self._floor
        if event.when_busy == "discard":
            is_of_handoff = event.by_hook and floor.handoff  # then only its own speech stands in its way
            rivals = [s for s in floor.live if s.by_hook or not is_of_handoff]
            if any(s.kind == "reply" for s in rivals) if event.kind == "reply" else rivals:
                self.refuse(event)
                return
        elif event.when_busy == "interrupt":
            self.interrupt(i.InterruptRequested(from_tool_of=event.from_tool_of))
        floor.add(
            event.speech_id,
            event.kind,
            interruptible=event.interruptible,
            priority=event.priority,
            by_hook=event.by_hook,
        )

    def refuse(self, event: i.SpeechRequested) -> None:
        """Nothing will come of that request."""
        self._out.append(CancelSpeech(event.speech_id, "discarded"))

    def grant_next(self, now: float) -> bool:
        """Give the floor to who is next, if it is free; tell whether it was given."""
        floor = self._floor
        if floor.active is not None:
            return False
        handoff_id = floor.next_handoff
        if handoff_id:
            del floor.handoffs[handoff_id]
            floor.handoff, floor.was_handoff_heard = handoff_id, False
            self._out.append(BeginHandoff(handoff_id))
            return True
        speech = floor.next_speech
        if speech is None:
            return False
        speech.phase = "active"
        self._out.append(GrantFloor(speech.speech_id))
        self._interruption.step_follows(speech, now)
        return True

    def protect(self, event: i.SpeechProtected) -> None:
        """From now on that speech is not cut; if a voice held it, it goes on."""
        speech = self._floor.get(event.speech_id)
        if speech is not None and speech.phase != "ending":
            speech.interruptible = False
            if not self._interruption.is_caller_gone:
                self._interruption.release(speech)

    def interrupt(self, event: i.InterruptRequested) -> None:
        """`interrupt()`: cut one speech, or what sounds and what waits up to the first protected one.

        An answer that waits for the very tool that asked goes on: the tool still works for it.
        """
        if event.speech_id:
            speech = self._floor.get(event.speech_id)
            if speech is not None and speech.phase != "ending" and (speech.interruptible or event.force):
                self._interruption.cancel(speech)
            return
        active = self._floor.active
        if active is not None and not (active.interruptible or event.force):
            return
        if active is not None:
            self._interruption.cancel(active)
        for speech in self._floor.in_tools:
            if speech.speech_id != event.from_tool_of and (speech.interruptible or event.force):
                self._interruption.cancel(speech)
        self._interruption.drop_waiting(force=event.force)

    def cancel_all(self) -> None:
        """Stop every speech, protected ones too, and every handoff."""
        floor = self._floor
        for speech in floor.live:
            self._interruption.cancel(speech)
        for handoff_id in [floor.handoff, *floor.handoffs] if floor.handoff else floor.handoffs:
            self._out.append(DropHandoff(handoff_id))
        floor.handoff = ""
        floor.handoffs.clear()

    def handoff_requested(self, event: i.HandoffRequested, *, is_open: bool) -> None:
        """Another agent is to take over: after what waits and speaks, unless the session is not open."""
        if is_open:
            self._floor.add_handoff(event.handoff_id)
        else:
            self._out.append(DropHandoff(event.handoff_id))

    def handoff_ended(self, event: i.HandoffEnded, now: float) -> None:
        """The new agent is there: the floor is everybody's again."""
        if event.handoff_id == self._floor.handoff:
            self._floor.handoff = ""
            self._floor.last_ended_at = now

    # --- what a speech reports; of one that was told to stop it changes nothing

    def playout_started(self, event: i.PlayoutStarted) -> None:
        """A step sounds."""
        speech = self._floor.get(event.speech_id)
        if speech is not None and speech.phase == "active" and not speech.is_playing:
            speech.playing_since = event.at
            speech.audible_since = event.at if speech.audible_since is None else speech.audible_since
            self._floor.was_handoff_heard = True
            self._hush.agent_sounds(event.at)

    def playout_finished(self, event: i.PlayoutFinished, now: float) -> None:
        """A step has been played."""
        speech = self._floor.get(event.speech_id)
        if speech is None or speech.phase != "active":
            return
        speech.playing_since = None
        if event.is_last:
            self._interruption.release(speech)
            speech.leave_floor("ending")
        else:
            self._interruption.step_follows(speech, now)

    def tools_started(self, event: i.ToolsStarted) -> None:
        """Its tools run: new words are a new turn."""
        speech = self._floor.get(event.speech_id)
        if speech is not None:
            speech.has_used_tools = True

    def tools_awaited(self, event: i.ToolsAwaited) -> None:
        """It has nothing to play until its tools are done."""
        speech = self._floor.get(event.speech_id)
        if speech is not None and speech.phase == "active":
            self._interruption.release(speech)
            speech.leave_floor("tools")

    def tools_finished(self, event: i.ToolsFinished) -> None:
        """It wants the floor again."""
        speech = self._floor.get(event.speech_id)
        if speech is not None and speech.phase == "tools":
            speech.phase = "queued"

    def ended(self, event: i.SpeechEnded, now: float, *, is_open: bool) -> None:
        """It is over. A turn that went well forgives failures; what was only said shows nothing but a voice."""
        speech = self._floor.remove(event.speech_id, now)
        if speech is None:
            return
        if event.outcome == "failed":
            self._failures[event.component] += 1
            if self._failures[event.component] >= self._max_errors and is_open and not self._has_given_up:
                self._has_given_up = True
                self._out.append(CloseSession("error", event.component))
        elif event.outcome == "completed":
            if speech.kind == "say":
                del self._failures["tts"]
            else:
                self._failures.clear()
