"""SpeechQueue: requests for the floor, the next speech that gets it, and the reports of a speech until its end.

A handoff waits in the same queue, so that speech requested before it is spoken before it. While its components are
opened, the agent that has the conversation answers the caller meanwhile; what the application asked for after the
handoff waits for it. A task that is over answers nobody: behind its end, answers wait too.
"""

from __future__ import annotations

from collections import Counter

from vivavoce.agents.turn import inputs as i
from vivavoce.agents.turn.barge_in.guard import InterruptionGuard
from vivavoce.agents.turn.barge_in.interruption import Interruption
from vivavoce.agents.turn.effects import (
    BeginHandoff,
    CancelSpeech,
    CloseSession,
    DropHandoff,
    Effect,
    ForgetSpeech,
    GrantFloor,
    PrepareSpeech,
    TakeFloorBack,
)
from vivavoce.agents.turn.floor.caller_floor import CallerFloor
from vivavoce.agents.turn.floor.floor import Floor


class SpeechQueue:
    """Moves speeches through the floor. Counts failures: a conversation that fails again and again is closed."""

    def __init__(
        self,
        floor: Floor,
        caller: CallerFloor,
        interruption: Interruption,
        guard: InterruptionGuard,
        out: list[Effect],
        *,
        max_errors: int,
    ) -> None:
        self._floor = floor
        self._caller = caller
        self._guard = guard
        self._interruption = interruption
        self._out = out
        self._max_errors = max_errors
        self._failures: Counter[str] = Counter()
        self._has_given_up = False
        self.unanswered = ""
        """The turn whose answer was the last speech that ended, if it failed before the caller heard any of it."""

    def requested(self, event: i.SpeechRequested, now: float) -> None:
        """`say()` or `reply()`: it waits, takes the floor, or is not wanted."""
        floor = self._floor
        if not self._is_wanted(event):
            self.refuse(event)
            return
        if event.when_busy == "interrupt":
            self.interrupt(i.InterruptRequested(from_tool_of=event.from_tool_of, hook_of=event.hook_of))
        speech = floor.add(
            event.speech_id,
            event.kind,
            interruptible=event.interruptible,
            priority=event.priority,
            asked=event,
        )
        speech.asked_at = now

    def _is_wanted(self, event: i.SpeechRequested) -> bool:
        if event.when_busy in ("queue", "interrupt"):
            return True
        if event.when_busy == "discard" and self._caller.is_held:
            return False
        is_of_handoff = event.by_hook and self._floor.handoff  # then only its own speech is before it
        rivals = [s for s in self._floor.present if (s.by_hook or not is_of_handoff) and s.speech_id != event.hook_of]
        if event.kind == "reply":
            return all(s.kind != "reply" for s in rivals)
        return event.when_busy is None or not rivals

    def refuse(self, event: i.SpeechRequested) -> None:
        """Refuse that request."""
        self._out += [CancelSpeech(event.speech_id, "discarded"), ForgetSpeech(event.speech_id, "discarded")]

    def grant_next(self, now: float) -> bool:
        """Give the floor to the next speech or handoff, if it is free; report whether it was given."""
        floor = self._floor
        if floor.active is not None:
            return False
        handoff_id = floor.next_handoff
        if handoff_id:
            floor.begin_handoff(handoff_id)
            self._out.append(BeginHandoff(handoff_id))
            return True
        speech = self._caller.next_speech()
        if speech is None:
            return False
        speech.phase, speech.has_begun = "active", True
        self._out.append(GrantFloor(speech.speech_id))
        self._caller.floor_given(speech)
        self._interruption.step_follows(speech, now)
        return True

    def prepare_answer(self) -> bool:
        """Let an answer generate that waits behind speech whose words are known; return whether there was one."""
        floor = self._floor
        if floor.handoff or floor.handoffs or (floor.active is not None and not floor.active.is_whole):
            return False
        for speech in floor.ready:
            if speech.kind == "turn":
                if speech.phase == "prepared" or speech.has_used_tools:
                    return False
                speech.phase, speech.has_begun = "prepared", True
                self._out.append(PrepareSpeech(speech.speech_id))
                return True
            if not speech.is_whole:
                return False
        return False

    def protect(self, event: i.SpeechProtected) -> None:
        """From now on that speech is not cut; if a voice held it, it continues."""
        speech = self._floor.get(event.speech_id)
        if speech is not None and speech.phase != "ending":
            speech.interruptible = False
            if not self._interruption.is_caller_gone:
                self._interruption.release(speech)

    def interrupt(self, event: i.InterruptRequested) -> None:
        """`interrupt()`: cut one speech, or the one that sounds and those that wait up to the first protected one.

        An answer that waits for the very tool that asked goes on: the tool still works for it. So does the answer to
        the turn whose hook asked.
        """
        if event.speech_id:
            speech = self._floor.get(event.speech_id)
            if speech is not None and speech.phase != "ending" and (speech.interruptible or event.force):
                self._interruption.cancel(speech)
            return
        active = self._floor.active
        if active is not None and active.speech_id == event.hook_of:
            active = None
        if active is not None and not (active.interruptible or event.force):
            return
        if active is not None:
            self._interruption.cancel(active)
        for speech in self._floor.in_tools:
            if speech.speech_id != event.from_tool_of and (speech.interruptible or event.force):
                self._interruption.cancel(speech)
        self._interruption.drop_waiting(force=event.force, but=event.hook_of)

    def cancel_all(self) -> None:
        """Stop every speech, protected ones too, and every handoff."""
        floor = self._floor
        for speech in floor.live:
            self._interruption.cancel(speech)
        self._out += [DropHandoff(handoff_id) for handoff_id in floor.drop_handoffs()]

    def handoff_requested(self, event: i.HandoffRequested, *, is_open: bool) -> None:
        """Another agent is to take over: after the speeches that sound and wait, unless the session is not open."""
        if is_open:
            self._floor.add_handoff(
                event.handoff_id, begins_task=event.begins_task, ends_task=event.ends_task, opens=event.opens
            )
        else:
            self._out.append(DropHandoff(event.handoff_id))

    def handoff_ended(self, event: i.HandoffEnded) -> None:
        """The new agent is there: the floor is free again, also for speech behind a task that is over."""
        self._floor.end_task(event.ends_task)
        if event.handoff_id == self._floor.handoff:
            self._floor.end_handoff()

    # --- reports of a speech; those of a cancelled one change nothing

    def playout_started(self, event: i.PlayoutStarted) -> None:
        """A step sounds."""
        speech = self._floor.get(event.speech_id)
        if speech is not None and speech.phase == "active" and not speech.is_playing:
            speech.playing_since = event.at
            speech.audible_since = event.at if speech.audible_since is None else speech.audible_since
            self._floor.handoff_sounds()
            for waiting in self._floor.waiting:
                waiting.has_foreword = True
            self._guard.agent_sounds(event.at)
            self._caller.agent_sounds(speech)

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

    def gives_way(self, event: i.ToolsAwaited | i.FloorYielded) -> None:
        """It has nothing to play until its tools are done, or until its hook has spoken."""
        speech = self._floor.get(event.speech_id)
        if speech is not None and speech.phase in ("active", "prepared"):
            self._interruption.release(speech)
            self._out.append(TakeFloorBack(speech.speech_id))
            speech.leave_floor("tools" if isinstance(event, i.ToolsAwaited) else "queued")
        elif speech is not None and speech.phase == "queued" and speech.has_begun and isinstance(event, i.ToolsAwaited):
            speech.phase = "tools"  # it had left the floor to speech of its hook, which awaits a task now

    def tools_finished(self, event: i.ToolsFinished) -> None:
        """It wants the floor again."""
        speech = self._floor.get(event.speech_id)
        if speech is not None and speech.phase == "tools":
            speech.phase = "queued"

    def ended(self, event: i.SpeechEnded, *, is_open: bool) -> None:
        """It is over. A completed turn resets the counts of failures; a completed `say` resets that of the voice."""
        speech = self._floor.get(event.speech_id)
        if speech is None:
            return
        self._floor.forget(speech, event.outcome)
        is_unheard = speech.kind == "turn" and not (speech.was_audible or speech.has_used_tools)
        self.unanswered = speech.turn_id if is_unheard and event.outcome == "failed" else ""
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
