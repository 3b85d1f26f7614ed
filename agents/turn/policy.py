"""InterruptionPolicy: the application's own decision on the caller's voice against the agent's.

    class Patient:
        def decide(self, moment: InterruptionMoment) -> Decision:
            if moment.agent_seconds < 1.0 and "stop" not in moment.text:
                return "ignore"
            return moment.default

    SessionOptions(interruption=InterruptionOptions(mode=Patient()))

A policy is asked only about speech that sounds, or is paused in the middle, and that a voice may cut. It is never asked
about a protected speech, nor about an answer that the caller has not heard yet: further words of the caller take that
back, so that they become one turn. A policy is pure: it answers at once, by the moment alone, and is asked again for
each new moment. If it raises, or returns something else, the default is used; an `error` event of source "policy"
reports that.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass, field
from typing import Literal, Protocol

from vivavoce.pipelines.core.checks import shown
from vivavoce.pipelines.core.errors import ConfigurationError

Decision = Literal["ignore", "pause", "interrupt"]
"""`ignore`: the agent continues, paused or not. `pause`: it is held, until words, silence or `max_pause` decide.
`interrupt`: it is cut, and the caller has the floor."""

Trigger = Literal["speech", "words", "end_of_turn"]


@dataclass(frozen=True, slots=True, kw_only=True)
class InterruptionMoment:
    """The facts that are known when a decision is due.

    Args:
        trigger: `speech`: the caller has been sounding for `min_duration`, or `max_pause` is over. `words`: a new
            transcript, or short words that came before the end of their sound, which is over now. `end_of_turn`: the
            turn is over and would be answered; "pause" then counts as "interrupt", and with "ignore" its words are kept
            as a backchannel's, and not answered.
        text: The caller's words in this turn, the newest guess included; empty where no words have come.
        is_final: Whether no part of the text is a guess.
        is_stable: Whether the guess, if there is one, has been unchanged for `stable_interim`.
        is_backchannel: Whether the text is made only of backchannels.
        speech_seconds: Length of the caller's newest sound so far, up to its last frame that is known to be voiced; 0
            without a VAD.
        is_speaking: Whether that sound goes on.
        agent_seconds: Seconds since the agent's present words began to be heard, pauses included.
        is_paused: Whether the agent is held.
        default: The decision of `mode="pause"`.
    """

    trigger: Trigger
    text: str = field(repr=False)
    is_final: bool
    is_stable: bool
    is_backchannel: bool
    speech_seconds: float
    is_speaking: bool
    agent_seconds: float
    is_paused: bool
    default: Decision


class InterruptionPolicy(Protocol):
    """Anything with this method may be `InterruptionOptions.mode`."""

    def decide(self, moment: InterruptionMoment, /) -> Decision:
        """Return the decision, at once: the call comes between two inputs of the session's loop."""


def check_policies(mode: object, backchannels: object) -> None:
    """Refuse values that can never decide.

    Raises:
        ConfigurationError: A value is neither known nor can be asked, or it is async.
    """
    if isinstance(mode, type):
        raise ConfigurationError(
            f"need an object with decide(moment) as mode, got the class {shown(mode)}; make one of it"
        )
    decide = getattr(mode, "decide", None)
    is_known = type(mode) is str and mode in ("pause", "immediate")
    if not is_known and (not callable(decide) or inspect.iscoroutinefunction(decide)):
        raise ConfigurationError(
            f"need mode 'pause', 'immediate' or an object with a sync decide(moment), got {shown(mode)}"
        )
    if isinstance(backchannels, frozenset):
        return
    if not callable(backchannels) or inspect.iscoroutinefunction(backchannels):
        raise ConfigurationError(
            f"need backchannels as a frozenset of phrases or a sync function(text), got {shown(backchannels)}"
        )
