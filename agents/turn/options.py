"""The options of turn-taking. The defaults suit a telephone conversation. All times in seconds."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from vivavoce.agents.turn.backchannels import BY_LANGUAGE
from vivavoce.agents.turn.policy import InterruptionPolicy, check_policies
from vivavoce.pipelines.core.checks import (
    check_choice,
    check_flag,
    check_instance,
    check_number,
    check_whole,
    is_number,
    shown,
)
from vivavoce.pipelines.core.errors import ConfigurationError

MAX_WAIT_LOG = math.log(365 * 24 * 3600)
"""Natural logarithm of the longest wait of a wake-up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointingOptions:
    """When a pause ends the user's turn, counted from the true end of speech.

    Each option: docs/options.md.
    """

    mode: Literal["fixed", "dynamic", "manual"] = "fixed"
    """`dynamic` learns `min_delay` from the caller's own pauses (how: `vivavoce.agents.turn.user.learned_delay`).

    `manual`: only `session.input.commit_turn()` ends a turn (push-to-talk), besides typed text and the limits below; a
    preemptive answer is then begun on final words in a silence only, not on interims or while the user speaks."""
    min_delay: float = 0.4
    """Silence that ends a turn judged complete, or not judged at all; where `dynamic` begins."""
    learned: tuple[float, float] = (0.3, 1.2)
    """The lowest and the highest `min_delay` that `dynamic` may learn."""
    max_delay: float = 3.0
    """Silence that ends a turn judged incomplete; with a recogniser that judges the ends of turns itself, any turn that
    it has not ended by then."""
    transcript_timeout: float = 1.0
    """Silence after which the last interim replaces a missing final."""
    no_words: float = 3.0
    """Seconds after its last new word, at least `max_delay`, after which a turn is over even if sound continues, for
    example a television's; only if the recogniser gives interims. The sound is noise until a word comes. With a
    recogniser whose first interims come more than 2 s late, `InterruptionOptions.max_pause` takes its place if longer.
    """
    max_turn_words: int | None = None
    """A turn of more words is over, though the user talks on; further words are a new turn. None for no limit."""
    max_turn_duration: float | None = None
    """A turn that has lasted for so many seconds is over, though the user talks on. None for no limit."""

    def __post_init__(self) -> None:
        check_choice("mode", self.mode, ("fixed", "dynamic", "manual"))
        check_number("min_delay", self.min_delay, at_least=0, unit="s")
        check_number("max_delay", self.max_delay, at_least=0, unit="s")
        if self.min_delay > self.max_delay:
            raise ConfigurationError(
                f"need 0 <= min_delay <= max_delay (s), got {self.min_delay!r}, {self.max_delay!r}"
            )
        check_number("no_words", self.no_words, above=0, unit="s")
        check_whole("max_turn_words", self.max_turn_words, at_least=1, or_none=True)
        check_number("max_turn_duration", self.max_turn_duration, above=0, unit="s", or_none=True)
        check_number("transcript_timeout", self.transcript_timeout, above=0, unit="s")
        is_pair = isinstance(self.learned, tuple) and len(self.learned) == 2 and all(map(is_number, self.learned))
        if not is_pair or not 0 <= self.learned[0] <= self.learned[1]:
            raise ConfigurationError(f"need 0 <= learned[0] <= learned[1] (s), got {shown(self.learned)}")
        low, high = self.learned
        if self.mode == "dynamic" and not low <= self.min_delay <= high <= self.max_delay:
            raise ConfigurationError(
                "mode 'dynamic' needs learned[0] <= min_delay <= learned[1] <= max_delay (s), "
                f"got learned={shown(self.learned)}, min_delay={self.min_delay!r}, max_delay={self.max_delay!r}"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class InterruptionOptions:
    """When the user's speech takes the floor from the agent.

    Each option: docs/options.md.
    """

    enabled: bool = True
    """Whether speech may interrupt the agent at all."""
    mode: Literal["pause", "immediate"] | InterruptionPolicy = "pause"
    """`pause`: speech pauses the agent, words interrupt it, silence lets it continue. `immediate`: speech of
    `min_duration` cuts; with `min_words` it pauses until that many words have come. Or an object with decisions of its
    own (`vivavoce.agents.turn.policy`).
    """
    min_duration: float = 0.5
    """Speech shorter than this, from its onset to its last voiced frame, does not touch the agent when it sounds; its
    words pause the agent, and cut it at the end of the turn.
    """
    min_words: int = 0
    """Words needed to interrupt, in any mode; fewer are treated as sounds."""
    false_timeout: float = 1.0
    """Silence without words after which a paused agent continues."""
    max_pause: float | None = 5.0
    """Seconds from the onset of a sound without words after which it is noise: a paused agent continues although the
    sound does. Several such sounds hold one speech for at most twice that in total. If the recogniser gives no
    interims, a voice may hold the agent, or keep a turn open, for 30 s without a new word. None waits for the end of
    the sound.
    """
    thinking_min_duration: float = 0.3
    """Speech shorter than this releases a held-back answer at once, unless an interim shows words in it."""
    stable_interim: float = 0.2
    """An interim unchanged for this long counts as words."""
    echo_warm_up: float = 0.0
    """Seconds from the agent's first sound on during which no voice interrupts it, for clients whose echo canceller has
    to converge first (2 to 3 s for a browser on loudspeakers); words said meanwhile are answered afterwards."""
    fade: float = 0.05
    """Fade-out when the agent is paused or cut."""
    backchannels: frozenset[str] | Callable[[str], bool] = field(default=BY_LANGUAGE["en"])
    """Lower-case words and phrases: a turn made only of these does not take the floor while the agent speaks. Or a
    function that returns whether a text is one. Sets for some languages: `backchannels_for("de", "en")`."""

    def __post_init__(self) -> None:
        check_policies(self.mode, self.backchannels)
        check_flag("enabled", self.enabled)
        for name in (
            "min_duration",
            "false_timeout",
            "thinking_min_duration",
            "stable_interim",
            "echo_warm_up",
            "fade",
        ):
            check_number(name, getattr(self, name), at_least=0, unit="s")
        check_number("max_pause", self.max_pause, above=0, unit="s", or_none=True)
        check_whole("min_words", self.min_words, at_least=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class WakeUp:
    """When a silent caller is woken up. `WakeUp(after=10, repeat=3, backoff=1.5, then="close")` waits 10, 15 and 22.5
    seconds for its three levels, and closes the session after another 33.75.

    The level is that of one silence: it ends with the next words that the caller says or types.

    Each option: docs/options.md.
    """

    after: float
    """Seconds of silence before the first level."""
    repeat: int = 1
    """Levels in one silence."""
    backoff: float = 1.0
    """Factor from each wait to the next."""
    then: Literal["close", "hangup"] | None = None
    """The action after the last level and one more wait: "close" closes the session with reason `user_away`; "hangup"
    disconnects the caller first, as by `session.hangup()`; None does nothing.
    """

    def __post_init__(self) -> None:
        check_number("after", self.after, above=0, unit="s", remedy="no wake-up is wake_up=None")
        check_whole("repeat", self.repeat, at_least=1)
        check_number("backoff", self.backoff, at_least=1)
        check_choice("then", self.then, ("close", "hangup", None))
        if math.log(self.after) + self.repeat * math.log(self.backoff) > MAX_WAIT_LOG:
            raise ConfigurationError(f"need waits below a year, got {self!r}; take a smaller backoff or repeat")


def wake_up_of(given: float | WakeUp | None) -> WakeUp | None:
    """Return the value of `wake_up=`; a plain number means one wake-up in a silence.

    Raises:
        ConfigurationError: The value is of another kind, or the number is not a wait.
    """
    if given is None or isinstance(given, WakeUp):
        return given
    if not is_number(given):
        raise ConfigurationError(
            f"wake_up must be seconds, a WakeUp or None, got {shown(given)}; for example wake_up=10"
        )
    return WakeUp(after=given)


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineTraits:
    """The traits of a pipeline on which turn-taking depends."""

    detector_timeout: float | None = None
    """Silence after which a missing verdict of the turn detector counts as complete; None without a detector."""
    remote_decides: bool = False
    """Whether a remote model ends turns by beginning to answer; pauses then only drop turns that it does not answer."""
    recogniser_decides: bool = False
    """Whether the recogniser judges the ends of turns. A pause then ends a turn only where no such judgement comes."""
    hears_audio: bool = False
    """Whether the model hears the audio itself. Transcripts may be late or missing, so speech alone makes a turn."""
    voice_lag: float = 0.0
    """Seconds after which the VAD reports silence: as a pause of the voice, or as the end of speech."""
    emits_interims: bool = True
    """Whether words are reported while the caller speaks, so that sound without any is not speech."""
    max_attempts: int = 0
    """The most answers that may be begun before a turn is over, each on other words; 0 for none."""

    def __post_init__(self) -> None:
        check_number("detector_timeout", self.detector_timeout, at_least=0, unit="s", or_none=True)
        check_flag("remote_decides", self.remote_decides)
        check_flag("recogniser_decides", self.recogniser_decides)
        check_flag("hears_audio", self.hears_audio)
        check_whole("max_attempts", self.max_attempts, at_least=0)
        check_number("voice_lag", self.voice_lag, at_least=0, unit="s")
        check_flag("emits_interims", self.emits_interims)


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnOptions:
    """All of turn-taking."""

    endpointing: EndpointingOptions = EndpointingOptions()
    interruption: InterruptionOptions = InterruptionOptions()
    wake_up: WakeUp | None = None
    away_after: float | None = 15.0
    """Silence after which the user counts as away, or None for never."""
    max_errors: int = 3
    """Turns in a row that may fail before the session closes with reason `error`."""
    traits: PipelineTraits = PipelineTraits()
    """The traits of the pipeline in use."""

    def __post_init__(self) -> None:
        check_instance("endpointing", self.endpointing, EndpointingOptions)
        check_instance("interruption", self.interruption, InterruptionOptions)
        check_instance("wake_up", self.wake_up, WakeUp, or_none=True)
        check_number("away_after", self.away_after, above=0, unit="s", or_none=True)
        check_whole("max_errors", self.max_errors, at_least=1)
        check_instance("traits", self.traits, PipelineTraits)
