"""Stops: holds the agent's speech, lets it continue, or cuts it, and knows the cause. Other classes decide when."""

from __future__ import annotations

from vivavoce.agents.turn import inputs as i
from vivavoce.agents.turn.effects import Cause, Effect, InterruptedBy, PauseSpeech, ResumeSpeech, StoppedAs
from vivavoce.agents.turn.floor.floor import Floor
from vivavoce.agents.turn.floor.speech import Speech
from vivavoce.agents.turn.user.user_side import UserSide

_CAUSES: dict[type, InterruptedBy] = {
    i.InterruptRequested: "request",
    i.TextReceived: "text",
    i.SpeechRequested: "speech",
    i.HandoffRequested: "speech",
    i.ParticipantLeft: "caller_left",
    i.ParticipantLinked: "caller_left",
    i.SessionClosing: "close",
    i.SessionClosed: "close",
}
"""The causes of inputs that hold or cut the agent without a voice."""


class Stops:
    """Carries out the holds and cuts of one step, with the step's input as their cause.

    Args:
        out: Effects go here.
    """

    def __init__(self, floor: Floor, user: UserSide, out: list[Effect]) -> None:
        self._floor = floor
        self._user = user
        self._out = out
        self._by: InterruptedBy = "voice"
        self.is_caller_gone = False
        """Whether the caller is gone for now. Then the speech that has the floor is held, even if it is protected."""

    def begin_step(self, event: i.TurnInput) -> None:
        """Take the input of the present step: it is the cause of all holds and cuts in this step."""
        self._by = _CAUSES.get(type(event), "voice")

    @property
    def _cause(self) -> Cause:
        return Cause(self._by, self._user.onset if self._by == "voice" else None)

    def hold(self, speech: Speech, at: float) -> None:
        """Pause that speech, or keep it from beginning."""
        if not speech.is_paused:
            speech.hold(at)
            self._out.append(PauseSpeech(speech.speech_id, self._cause))

    def release(self, speech: Speech) -> None:
        """End a hold because of the speech itself, such as its end: a hold must not outlast the speech."""
        if speech.is_paused:
            speech.resume()
            self._out.append(ResumeSpeech(speech.speech_id, is_false_interruption=False))

    def resume(self, speech: Speech) -> None:
        """Resume a held speech, since the sound that held it meant nothing; not while the caller is gone."""
        if not self.is_caller_gone:
            speech.resume()
            self._out.append(ResumeSpeech(speech.speech_id, is_false_interruption=speech.is_playing))

    def caller_left(self, now: float) -> None:
        """Hold the speech that has the floor, even if protected, until the caller is back."""
        self.is_caller_gone = True
        if self._floor.active is not None:
            self.hold(self._floor.active, now)

    def caller_came(self) -> bool:
        """Hold no speech for the caller's absence any more; return whether the caller was gone."""
        was_gone, self.is_caller_gone = self.is_caller_gone, False
        return was_gone

    def cancel(self, speech: Speech, *, is_withdrawn: bool = False) -> None:
        """Stop one speech, in any phase."""
        outcome: StoppedAs = "interrupted" if speech.was_audible else "cancelled"
        self._floor.stop(speech, outcome, is_withdrawn=is_withdrawn, cause=self._cause)

    def cancel_waiting(self, *, force: bool = False, but: str = "") -> None:
        """Cancel the waiting speeches up to the first protected one, or all with `force`; never the speech with the id
        `but`."""
        for speech in self._floor.waiting:
            if speech.speech_id == but:
                continue
            if not speech.interruptible and not force:
                return
            self.cancel(speech)
