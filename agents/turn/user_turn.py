"""UserTurn: what is known of the user's open turn, and when a pause ends it."""

from __future__ import annotations

from dataclasses import dataclass, field

from vivavoce.agents.turn.effects import TurnTiming
from vivavoce.agents.turn.options import EndpointingOptions


@dataclass(slots=True)
class UserTurn:
    """The user's open turn. Times are the session clock's; None for what has not happened.

    Args:
        earlier_text: Words of this turn that were committed already, when it was resumed and merges.
        segments: Final transcripts since.
        interim: What the last utterance sounds like, while no final settles it.
        speech_started_at, speech_ended_at: True times of the newest burst of speech; never set without a VAD.
    """

    turn_id: str
    earlier_text: str = ""
    segments: list[str] = field(default_factory=list)
    interim: str = ""
    interim_since: float = 0.0
    speech_started_at: float | None = None
    speech_ended_at: float | None = None
    end_reported_at: float | None = None
    final_at: float | None = None
    is_complete: bool | None = None
    predicted_at: float | None = None

    @property
    def has_words(self) -> bool:
        """Whether anything was understood, settled or not."""
        return bool(self.segments or self.interim)

    @property
    def new_text(self) -> str:
        """The words since the last commit, an unsettled interim last."""
        return " ".join([*self.segments, *([self.interim] if self.interim else [])])

    @property
    def text(self) -> str:
        """All words of the turn."""
        return " ".join(part for part in (self.earlier_text, self.new_text) if part)

    @property
    def is_merged(self) -> bool:
        """Whether the turn was committed before and goes on."""
        return bool(self.earlier_text)

    @property
    def owes_final(self) -> bool:
        """Whether a final transcript of the newest burst of speech is still to come."""
        if self.interim:
            return True
        if self.speech_started_at is None:
            return False
        return self.final_at is None or self.final_at < self.speech_started_at

    def begin_speech(self, at: float) -> None:
        """A burst of speech began: whatever was judged of the pause before it is void."""
        self.speech_started_at = at
        self.speech_ended_at = self.end_reported_at = None
        self.is_complete = self.predicted_at = None

    def end_speech(self, at: float, now: float) -> None:
        """The burst ended at `at`, told `now`."""
        self.speech_ended_at = at
        self.end_reported_at = now

    def add_interim(self, text: str, now: float) -> None:
        """An interim replaces the one before."""
        if text != self.interim:
            self.interim, self.interim_since = text, now

    def add_final(self, text: str, now: float) -> None:
        """A final settles the utterance; an empty one discards its interims."""
        self.interim = ""
        self.final_at = now
        self.is_complete = self.predicted_at = None
        if text:
            self.segments.append(text)

    def silence_since(self, now: float) -> float:
        """Return when the pause began: the true end of speech, or the last word's arrival without a VAD."""
        if self.speech_ended_at is not None:
            return self.speech_ended_at
        return self.final_at if self.final_at is not None else now

    def ends_at(self, options: EndpointingOptions, *, detector_timeout: float | None, now: float) -> float:
        """Return when the pause going on ends the turn, if nothing else happens.

        Args:
            detector_timeout: How long to wait for a verdict; None without a turn detector.
        """
        since = self.silence_since(now)
        if self.owes_final:
            return since + options.transcript_timeout
        if self.is_complete is False:
            return since + options.max_delay
        if self.is_complete is None and detector_timeout is not None:
            return since + max(options.min_delay, detector_timeout)
        return since + options.min_delay

    def timing(self, now: float) -> TurnTiming:
        """Return the times for the turn's record, committed now."""
        return TurnTiming(
            speech_ended_at=self.silence_since(now),
            end_reported_at=self.end_reported_at,
            final_at=self.final_at,
            predicted_at=self.predicted_at,
            committed_at=now,
        )


def is_backchannel(text: str, backchannels: frozenset[str]) -> bool:
    """Tell whether `text` is made only of backchannel words ("Yeah, okay.")."""
    words = [word.strip(".,!?…;:\"'").lower() for word in text.split()]
    return bool(words) and all(word in backchannels for word in words if word)
