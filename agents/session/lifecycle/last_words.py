"""What the agent says where it would fall silent: the hook for an empty answer, the apology before an error closes."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial

from vivavoce.agents.agent import Agent, AgentControl, EmptyReply
from vivavoce.agents.core.log import SessionLog
from vivavoce.agents.core.quiet_limit import QuietLimit
from vivavoce.agents.core.speech_handle import SpeechControl
from vivavoce.agents.speech.request import SpeechRequest
from vivavoce.agents.turn.inputs import SpeechRequested, TurnInput
from vivavoce.pipelines.core.checks import awaited
from vivavoce.pipelines.core.errors import SessionError, describe, located
from vivavoce.pipelines.core.ids import new_id
from vivavoce.pipelines.core.stray_cancellation import strays_as_errors

logger = logging.getLogger(__name__)

Ask = Callable[[SpeechControl, SpeechRequest, SpeechRequested], None]


class LastWords:
    """Made with the runtime, which has speeches spoken.

    Args:
        apology: Said before a close by errors; empty for none.
        limit: Seconds for one call of the hook while no speech is going on (`quiet_limit`).
        report_error: Told of what the hook raised.
    """

    def __init__(
        self, log: SessionLog, *, apology: str, limit: float, report_error: Callable[[Exception, str], None]
    ) -> None:
        self._log = log
        self._apology = apology
        self._limit = limit
        self._report_error = report_error
        self._running: set[QuietLimit] = set()
        self.is_apology_due = False
        self.problem = ""
        """Why the session closes, if turns failed again and again."""
        self._last_error: Exception | None = None

    def speech_failed(self, error: Exception | None) -> None:
        """Keep the error of the last speech that failed."""
        self._last_error = error

    def gave_up(self, component: str) -> None:
        """Turns have failed again and again, because of that component; a voice that fails cannot apologise."""
        self.is_apology_due = bool(self._apology) and component != "tts"
        last = "" if self._last_error is None else f"; the last error: {describe(self._last_error)}"
        self.problem = f"{component} failed in too many turns in a row{last}"

    def apologise(self, ask: Ask, tell: Callable[[TurnInput], None]) -> None:
        """Have the apology spoken; protected, it is the last thing that the caller hears."""
        speech = SpeechControl(new_id("speech"), "say", interruptible=False, post=tell)
        asked = SpeechRequested(speech_id=speech.id, kind="say", interruptible=False)
        ask(speech, SpeechRequest(text=self._apology), asked)

    def reply_was_empty(self, agent: Agent, empty: EmptyReply) -> None:
        """Call the agent's hook beside the conversation, so that it may say something and await it."""
        if AgentControl.of(agent).overrides("on_empty_reply"):
            self._log.run_hook("on_empty_reply", partial(self._call, agent, empty))

    def agent_is(self, *, busy: bool) -> None:
        """Tell the calls at work whether any speech is going on; at every step."""
        for limit in self._running:
            limit.agent_is(busy=busy)

    async def _call(self, agent: Agent, empty: EmptyReply) -> None:
        limit = QuietLimit(self._limit)
        self._running.add(limit)
        try:
            with limit.limiting() as scope, strays_as_errors("on_empty_reply"):
                await awaited("on_empty_reply", agent.on_empty_reply(empty))
        except Exception as error:  # noqa: BLE001 - a user callback: the conversation goes on
            logger.warning("on_empty_reply failed: %s", located(error))
            logger.debug("on_empty_reply failed here", exc_info=error)
            self._report_error(error, "hook")
        else:
            if scope.cancelled_caught:
                message = f"on_empty_reply did not end within {self._limit:g} s, speech apart"
                self._report_error(SessionError(message), "hook")
        finally:
            self._running.discard(limit)
