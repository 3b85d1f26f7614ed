"""Burst: speech of one side without a pause, from its onset to its end."""

from __future__ import annotations

from dataclasses import dataclass, replace

REPORT_LAG = 0.5
"""Seconds from an edge of speech to its report, at most, where audio is heard as it comes. A later report is of audio
that was kept, and that the recogniser has only just got.
"""
LONGEST_VOICE = 30.0
"""Seconds for which a voice without a new word may hold the agent if the recogniser gives no interims."""


@dataclass(slots=True)
class Burst:
    """Speech without a pause, by the VAD's true times. Its end does not depend on the other side.

    Args:
        reported_at: When the VAD reported the end.
        is_mere_noise: Whether it holds the agent no more: it has done so for as long as it may without words, or a
            policy ignores it.
        is_heard: Whether the model has heard its audio, or that of an earlier burst of its turn: then it needs no
            words.
        noise_since: The time since which it counts as silence until a word comes, since it has sounded so long without
            one; or None.
        word_at: When its last word came; None while it has had none.
        emits_interims: Whether words of it come while it sounds (`PipelineTraits.emits_interims`).
        voice_lag: Seconds after which silence within it shows (`PipelineTraits.voice_lag`).
        voiced_until: When its last voiced frame ended, while the voice pauses; None while it sounds.
        heard_from: The time from which the wait for its first word counts, if the onset was reported late.
        onset: `started_at` where the VAD reported it; None for the rest of a burst after a commit.
        is_settled: Whether its audio was committed, or its turn was dropped.
        is_answered: Whether a turn that it ended was committed.
    """

    started_at: float
    ended_at: float | None = None
    reported_at: float | None = None
    is_mere_noise: bool = False
    is_heard: bool = False
    noise_since: float | None = None
    word_at: float | None = None
    emits_interims: bool = True
    voice_lag: float = 0.0
    voiced_until: float | None = None
    onset: float | None = None
    heard_from: float = float("-inf")
    is_settled: bool = False
    is_answered: bool = False

    @property
    def is_going_on(self) -> bool:
        return self.ended_at is None

    @property
    def is_noise(self) -> bool:
        """Whether the burst counts as silence."""
        return self.noise_since is not None

    @property
    def is_rest_of_noise(self) -> bool:
        """Whether the whole burst follows a turn whose sound was noise, and so belongs to no turn."""
        return self.noise_since is not None and self.noise_since <= self.started_at

    def sounded_until(self, now: float) -> float:
        """Return when the burst ended, or `now` while it goes on."""
        return now if self.ended_at is None else self.ended_at

    @property
    def settles_from(self) -> float:
        """The time from which the wait for its last words counts: its end, if that was reported in time."""
        assert self.ended_at is not None
        assert self.reported_at is not None
        return max(self.ended_at, self.reported_at - REPORT_LAG)

    def is_heard_at(self, at: float) -> bool:
        """Return whether the burst goes on and had begun before that time."""
        return self.is_going_on and self.started_at < at

    @property
    def has_words(self) -> bool:
        """Whether a word has come while it sounded."""
        return self.word_at is not None

    def noise_at(self, max_pause: float) -> float:
        """Return when the burst becomes noise if no word comes. If words come late, a voice is believed for longer, and
        again after each word.
        """
        if self.emits_interims:
            return max(self.started_at, self.heard_from) + max_pause
        heard_at = self.started_at if self.word_at is None else self.word_at
        return heard_at + max(max_pause, LONGEST_VOICE)

    def hear(self) -> None:
        """Note that the model has heard its audio."""
        self.is_heard = True

    def lose_audio(self) -> None:
        """Note that its audio is lost with the pipeline that heard it."""
        self.is_heard = False

    def settle(self) -> None:
        """Note that the audio was committed or dropped."""
        self.is_settled = True

    def answer(self) -> None:
        """Note that its turn was committed after its end."""
        self.is_settled = self.is_answered = True

    def ignore(self) -> None:
        """Let the burst hold the agent no more; it may still have words."""
        self.is_mere_noise = True

    def turn_to_noise(self, now: float) -> None:
        """Count the burst as silence from now on, until a word of it comes."""
        assert self.is_going_on
        self.noise_since, self.is_mere_noise = now, True

    def take_word(self, now: float) -> None:
        """Note that a word of the burst was understood: it is not silence."""
        assert self.is_going_on
        self.word_at, self.noise_since = now, None

    def take_words_back(self) -> None:
        """Note that the burst's only words were taken back."""
        self.word_at = None

    def pause_voice(self, at: float) -> None:
        """Note that no voice is heard since `at`, in speech that may continue."""
        if self.is_going_on:
            self.voiced_until = max(at, self.started_at)

    def resume_voice(self) -> None:
        """Note that the voice is heard again."""
        if self.is_going_on:
            self.voiced_until = None

    def rest(self, now: float, *, keeps_noise: bool = False) -> Burst:
        """Return the rest of the burst after a commit; it belongs to another turn.

        Args:
            keeps_noise: Whether a burst that is noise stays noise; if not, the rest counts as a voice until it has
                lasted long enough itself.
        """
        assert self.is_going_on
        return replace(
            self,
            started_at=now,
            is_heard=False,
            word_at=None,
            onset=None,
            noise_since=self.noise_since if keeps_noise else None,
            is_mere_noise=self.is_mere_noise and keeps_noise,
            voiced_until=None if self.voiced_until is None else now,
        )

    def end(self, at: float, now: float) -> None:
        """End the burst at `at`, as reported `now`."""
        assert self.is_going_on
        self.ended_at = max(at, self.started_at)
        self.reported_at = now

    def voiced_seconds(self, now: float, *, since: float | None = None) -> float:
        """Return the seconds from the onset, or from `since`, to the last frame that is known to be voiced.

        The result is rounded, so that 2.1 - 1.6 is 0.5.
        """
        start = self.started_at if since is None else since
        until = self.voiced_until if self.ended_at is None else self.ended_at
        return max(0.0, round((now - self.voice_lag if until is None else until) - start, 6))
