"""PolicyRunner: asks the application's policies, and uses the default when one fails."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Literal

from vivavoce.agents.turn.backchannels import matcher
from vivavoce.agents.turn.effects import Effect, PolicyFailed
from vivavoce.agents.turn.options import InterruptionOptions
from vivavoce.agents.turn.policy import Decision, InterruptionMoment
from vivavoce.pipelines.core.errors import contained, describe

DECISIONS = ("ignore", "pause", "interrupt")


class PolicyRunner:
    """Holds the policies of one session.

    Args:
        out: Receives the failures.
    """

    def __init__(self, options: InterruptionOptions, out: list[Effect]) -> None:
        self._out = out
        self.take_options(options)

    def take_options(self, options: InterruptionOptions) -> None:
        """Ask the policies of these options from now on."""
        self._policy = None if isinstance(options.mode, str) else options.mode
        self._own_judgement: Callable[[str], bool] | None = None
        phrases = options.backchannels
        if isinstance(phrases, frozenset):
            self._is_phrases = matcher(phrases)
        else:
            self._own_judgement = phrases
            self._is_phrases = matcher(frozenset())
        self._judged: tuple[str, bool] | None = None

    @property
    def has_policy(self) -> bool:
        """Whether the application decides on interruptions."""
        return self._policy is not None

    def is_backchannel(self, text: str) -> bool:
        """Return whether these words take no floor. If the application's function fails, all words do."""
        if self._own_judgement is None:
            return self._is_phrases(text)
        if self._judged is None or self._judged[0] != text:  # asked for the same words again and again
            self._judged = (text, self._ask_own(text))
        return self._judged[1]

    def decide(self, moment: InterruptionMoment) -> Decision:
        """Return the policy's decision on this moment, or the default if it fails. There must be a policy."""
        assert self._policy is not None
        try:
            decision = self._policy.decide(moment)
        except BaseException as error:  # noqa: BLE001 - the application's code: the default goes on
            self._failed("mode", error)
            return moment.default
        if decision not in DECISIONS:
            self._fail("mode", f"needed one of {DECISIONS}, got {decision!r}")
            return moment.default
        return decision

    def _ask_own(self, text: str) -> bool:
        assert self._own_judgement is not None
        try:
            return bool(self._own_judgement(text))
        except BaseException as error:  # noqa: BLE001 - as above
            self._failed("backchannels", error)
            return False

    def _failed(self, option: Literal["mode", "backchannels"], error: BaseException) -> None:
        """Report the error of the application's code, after which the conversation continues."""
        self._fail(option, describe(contained(error, "the function")), traceback.format_exc())

    def _fail(self, option: Literal["mode", "backchannels"], problem: str, details: str = "") -> None:
        self._out.append(PolicyFailed(option, problem, details))
