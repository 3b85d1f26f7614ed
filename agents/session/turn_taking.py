"""TurnTaking: the turn-taking options of the agent that has the conversation, beside those of the session."""

from __future__ import annotations

from collections.abc import Sequence

from vivavoce.agents.agent import Agent
from vivavoce.agents.core.context import SessionContext
from vivavoce.agents.session.options import SessionOptions
from vivavoce.agents.session.wiring import check_turns, warn_of_waits
from vivavoce.agents.turn.inputs import TurnOptionsChanged
from vivavoce.agents.turn.options import EndpointingOptions, InterruptionOptions
from vivavoce.pipelines.core.errors import ConfigurationError
from vivavoce.pipelines.pipeline import Pipeline


class TurnTaking:
    """Has the turn machine go by the options of the agent that has the conversation.

    A task without options of its own keeps those of the agent behind it. An agent without any has the session's.
    """

    def __init__(self, context: SessionContext, options: SessionOptions) -> None:
        self._context = context
        self._live = context.live
        self._options = options
        self._agents: tuple[Agent, ...] = ()
        """The agent that has the conversation, behind it the tasks in it; the outermost first."""
        self._live.endpointing, self._live.interruption = options.endpointing, options.interruption

    @property
    def agents(self) -> tuple[Agent, ...]:
        """The agent that has the conversation, behind it the tasks in it; before the start none."""
        return self._agents

    # --- checks

    def check(self, agents: Sequence[Agent], pipeline: Pipeline) -> None:
        """Refuse a pipeline that cannot take turns by the options of the last of these agents; the others stand behind.

        Raises:
            CapabilityError: As of `wiring.check_turns`.
        """
        check_turns(self._options, pipeline, *self._endpointing(agents))

    def check_for_all(self, pipeline: Pipeline) -> None:
        """Refuse a pipeline that does not go with the session's options, or those of the agents that go on with it.

        Raises:
            CapabilityError: As of `wiring.check_turns`.
        """
        for count in range(len(self._agents) + 1):
            self.check(self._agents[:count], pipeline)

    def warn(self, agents: Sequence[Agent], pipeline: Pipeline) -> None:
        """Log waits of the last of these agents that are more than the session's budget."""
        warn_of_waits(self._options, pipeline, *self._endpointing(agents))

    # --- the change

    def take(self, agents: Sequence[Agent], pipeline: Pipeline) -> Exception | None:
        """Have the options of the last of these agents hold from now on.

        Returns:
            The error, which was reported too, if they do not go with the pipeline in use; the session's hold then.
        """
        self._agents, failure = tuple(agents), None
        endpointing, interruption = self._endpointing(agents)[0], self._interruption(agents)
        try:
            self.check(agents, pipeline)
        except ConfigurationError as error:  # the pipeline is not the one with which the agent was checked
            self._context.report_error(error, "pipeline", is_recovered=True)
            failure, endpointing = error, self._options.endpointing
        live = self._live
        if (endpointing, interruption) != (live.endpointing, live.interruption):
            live.endpointing, live.interruption = endpointing, interruption
            self._context.inbox.post(TurnOptionsChanged(endpointing=endpointing, interruption=interruption))
        return failure

    def take_pipeline(self, pipeline: Pipeline) -> None:
        """Another pipeline serves from here on: the options of the agent hold again, as far as they go with it."""
        if self._agents:
            self.take(self._agents, pipeline)

    def _endpointing(self, agents: Sequence[Agent]) -> tuple[EndpointingOptions, str]:
        for agent in reversed(agents):
            if (own := agent.overrides.endpointing) is not None:
                return own, f" of agent {agent.id!r}"
        return self._options.endpointing, ""

    def _interruption(self, agents: Sequence[Agent]) -> InterruptionOptions:
        own = (agent.overrides.interruption for agent in reversed(agents))
        return next((each for each in own if each is not None), self._options.interruption)
