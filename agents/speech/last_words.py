"""The agent's words when it would fall silent: the hook for an empty answer, and the apology before a close by
errors."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from vivavoce.agents.agent import Agent, AgentControl, EmptyReply
from vivavoce.agents.core.context import SessionContext
from vivavoce.agents.core.speech_handle import SpeechControl
from vivavoce.agents.speech.request import SpeechRequest
from vivavoce.agents.turn.inputs import SpeechRequested, TurnInput
from vivavoce.pipelines.core.checks import awaited
from vivavoce.pipelines.core.errors import describe
from vivavoce.pipelines.core.ids import new_id
from vivavoce.pipelines.pipeline import PipelineCapabilities

NAME = "on_empty_reply"

Ask = Callable[[SpeechControl, SpeechRequest, SpeechRequested], None]


class LastWords:
    """Speaks the apology, and calls the hook.

    Args:
        apology: Said before a close by errors; "" for none.
        limit: Seconds for one call of the hook while the session speaks nothing.
    """

    def __init__(self, context: SessionContext, *, apology: str, limit: float) -> None:
        self._context = context
        self._apology = apology
        self._limit = limit
        self.is_apology_due = False
        self.problem = ""
        """The reason of the close, if turns failed again and again."""
        self._last_error: Exception | None = None

    def speech_failed(self, error: Exception | None) -> None:
        """Keep the error of the last speech that failed."""
        self._last_error = error

    def gave_up(self, component: str) -> None:
        """Note the component that failed in too many turns; a voice that fails cannot apologise."""
        self.is_apology_due = bool(self._apology) and component != "tts"
        last = "" if self._last_error is None else f"; the last error: {describe(self._last_error)}"
        self.problem = f"{component} failed in too many turns in a row{last}"

    def pipeline_lost(self, capabilities: PipelineCapabilities) -> None:
        """Note that the pipeline is lost for good. Its own voice may still apologise; the voice of a lost model
        cannot."""
        kinds = {kind for kind, *_ in capabilities.components}
        self.is_apology_due = bool(self._apology) and ("tts" in kinds or "realtime_model" not in kinds)

    def apologise(self, ask: Ask, post: Callable[[TurnInput], None]) -> None:
        """Speak the apology. It is protected, and the last thing that the caller hears."""
        speech = SpeechControl(new_id("speech"), "say", interruptible=False, post=post)
        asked = SpeechRequested(speech_id=speech.id, kind="say", interruptible=False)
        ask(speech, SpeechRequest(text=self._apology), asked)

    def reply_was_empty(self, agent: Agent, empty: EmptyReply) -> None:
        """Call the agent's hook in a task of its own, so that the hook may speak and await it."""
        if AgentControl.of(agent).overrides("on_empty_reply"):
            context = self._context
            watch = context.observer.hook(NAME, turn_id=empty.turn_id)
            context.hooks.start("callback", NAME, partial(_call, agent, empty), self._limit, "while quiet", watch=watch)


async def _call(agent: Agent, empty: EmptyReply) -> None:
    await awaited(NAME, agent.on_empty_reply(empty))
