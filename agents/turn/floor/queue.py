"""SpeechQueue: takes requests for the floor, chooses the next speech, and takes its reports until its end.

A handoff waits in the same queue, so that speech requested before it is spoken before it. While its components are
opened, the agent that has the conversation answers the caller meanwhile; what the application asked for after the
handoff waits for it. When a task ends, answers wait until its end too, since the task answers no more.
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
    ForgetSpeech,
    GrantFloor,
    PrepareSpeech,
    TakeFloorBack,
)
from vivavoce.agents.turn.floor.caller_floor import CallerFloor
from vivavoce.agents.turn.floor.floor import Floor
from vivavoce.agents.turn.floor.speech import Speech
from vivavoce.agents.turn.floor.stops import Stops


class SpeechQueue:
    """Moves speeches through the floor, and counts failures: a conversation that fails again and again is closed."""

    def __init__(
        self,
        floor: Floor,
        caller: CallerFloor,
        stops: Stops,
        out: list[Effect],
        *,
        max_errors: int,
    ) -> None:
        self._floor = floor
        self._caller = caller
        self._stops = stops
        self._out = out
        self._max_errors = max_errors
        self._failures: Counter[str] = Counter()
        self._has_given_up = False
        self.unanswered = ""
        """The turn whose answer was the last speech that ended, if the answer failed before the caller heard any of
        it."""

    def requested(self, event: i.SpeechRequested, now: float) -> None:
        """Take a `say()` or `reply()`: it waits, gets the floor, or is refused."""
        floor = self._floor
        if not self._is_wanted(event):
            self.refuse(event)
            return
        if event.when_busy == "interrupt":
            self.interrupt(i.InterruptRequested(from_tool_of=event.from_tool_of, hook_of=event.hook_of))
        floor.add(
            event.speech_id,
            event.kind,
            interruptible=event.interruptible,
            priority=event.priority,
            asked=event,
            asked_at=now,
        )

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
        self._out += [CancelSpeech(event.speech_id, "discarded"), ForgetSpeech(event.speech_id, "discarded")]

    def begin_handoff(self) -> bool:
        """Give the floor to the next handoff, if it is its turn; return whether that was done."""
        floor = self._floor
        if floor.active is not None or not floor.next_handoff:
            return False
        handoff_id = floor.next_handoff
        floor.begin_handoff(handoff_id)
        self._out.append(BeginHandoff(handoff_id))
        return True

    def grant_next(self) -> Speech | None:
        """Give the floor to the next speech if the floor is free; return that speech, or None."""
        is_taken = self._floor.active is not None or self._floor.is_withheld
        speech = None if is_taken else self._caller.next_speech()
        if speech is not None:
            speech.take_floor()
            self._out.append(GrantFloor(speech.speech_id))
        return speech

    def prepare_answer(self) -> bool:
        """Let an answer generate while speech before it plays whose words are known; return whether there was one."""
        floor = self._floor
        if floor.handoff or floor.handoffs or (floor.active is not None and not floor.active.is_whole):
            return False
        for speech in floor.ready:
            if speech.kind == "turn":
                if speech.phase == "prepared" or speech.has_used_tools:
                    return False
                speech.prepare()
                self._out.append(PrepareSpeech(speech.speech_id))
                return True
            if not speech.is_whole:
                return False
        return False

    def protect(self, event: i.SpeechProtected) -> None:
        """Protect that speech from cuts from now on; if a voice held it, it continues."""
        speech = self._floor.get(event.speech_id)
        if speech is not None and not speech.is_over:
            speech.protect()
            if not self._stops.is_caller_gone:
                self._stops.release(speech)

    def interrupt(self, event: i.InterruptRequested) -> None:
        """Carry out `interrupt()`: cut one speech, or the present one and the waiting ones up to the first protected
        one.

        An answer that waits for the calling tool goes on, since the tool still works for it. The answer to the turn
        whose hook is calling goes on too.
        """
        if event.speech_id:
            speech = self._floor.get(event.speech_id)
            if speech is not None and not speech.is_over and (speech.interruptible or event.force):
                self._stops.cancel(speech)
            return
        active = self._floor.active
        if active is not None and active.speech_id == event.hook_of:
            active = None
        if active is not None and not (active.interruptible or event.force):
            return
        if active is not None:
            self._stops.cancel(active)
        for speech in self._floor.in_tools:
            if speech.speech_id != event.from_tool_of and (speech.interruptible or event.force):
                self._stops.cancel(speech)
        self._stops.cancel_waiting(force=event.force, but=event.hook_of)

    def cancel_all(self) -> None:
        """Stop every speech, protected ones too, and every handoff; speech that is asked for later may begin."""
        floor = self._floor
        floor.withhold(False)
        for speech in floor.live:
            self._stops.cancel(speech)
        self._out += [DropHandoff(handoff_id) for handoff_id in floor.drop_handoffs()]

    def handoff_requested(self, event: i.HandoffRequested, *, is_open: bool) -> None:
        """Queue a handoff after the speeches that sound and wait; drop it if the session is not open."""
        if is_open:
            self._floor.add_handoff(
                event.handoff_id, begins_task=event.begins_task, ends_task=event.ends_task, opens=event.opens
            )
        else:
            self._out.append(DropHandoff(event.handoff_id))

    def handoff_ended(self, event: i.HandoffEnded) -> None:
        """Free the floor, since the new agent has entered; also for speech that waited for a task that is over."""
        self._floor.end_task(event.ends_task)
        if event.handoff_id == self._floor.handoff:
            self._floor.end_handoff()

    # --- reports of a speech; those of a cancelled one change nothing

    def playout_started(self, event: i.PlayoutStarted) -> Speech | None:
        """Take the report that a step sounds; return its speech, or None if it has no floor any more or sounds
        already."""
        speech = self._floor.get(event.speech_id)
        if speech is None or not speech.has_floor or speech.is_playing:
            return None
        self._floor.speech_sounds(speech, event.at)
        return speech

    def playout_finished(self, event: i.PlayoutFinished) -> Speech | None:
        """Take the report that a step was played; return its speech if another step follows."""
        speech = self._floor.get(event.speech_id)
        if speech is None or not speech.has_floor:
            return None
        speech.fall_silent()
        if not event.is_last:
            return speech
        self._stops.release(speech)
        speech.finish()
        return None

    def tools_started(self, event: i.ToolsStarted) -> None:
        """Note that the speech's tools run: new words are a new turn."""
        speech = self._floor.get(event.speech_id)
        if speech is not None:
            speech.use_tools()

    def gives_way(self, event: i.ToolsAwaited | i.FloorYielded) -> None:
        """Take the floor from a speech that has nothing to play until its tools are done, or until its hook has
        spoken."""
        speech, awaits_tools = self._floor.get(event.speech_id), isinstance(event, i.ToolsAwaited)
        if speech is not None and speech.phase in ("active", "prepared"):
            self._stops.release(speech)
            self._out.append(TakeFloorBack(speech.speech_id))
            if awaits_tools:
                speech.await_tools()
            else:
                speech.yield_floor()
        elif speech is not None and speech.phase == "queued" and speech.has_begun and awaits_tools:
            speech.await_tools()  # it had left the floor to speech of its hook, which awaits a task now

    def tools_finished(self, event: i.ToolsFinished) -> None:
        """Let the speech wait for the floor again."""
        speech = self._floor.get(event.speech_id)
        if speech is not None and speech.phase == "tools":
            speech.want_floor()

    def ended(self, event: i.SpeechEnded, *, is_open: bool) -> None:
        """Note the end of a speech. A completed turn resets the counts of failures; a completed `say` resets that of
        the voice."""
        speech = self._floor.get(event.speech_id)
        if speech is None:
            return
        self._floor.forget(speech, event.outcome)
        is_unheard = speech.kind == "turn" and not (speech.was_audible or speech.has_used_tools)
        if not speech.is_withdrawn:  # else another answer to the turn follows
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
