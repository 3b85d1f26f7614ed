"""TurnTaking: the turn-taking options of the agent that has the conversation, and whether a pipeline goes by them."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from vivavoce.agents.agent import Agent
from vivavoce.agents.core.context import SessionContext
from vivavoce.agents.guard.guarding import guards_caller
from vivavoce.agents.session.options import SessionOptions
from vivavoce.agents.traces.trace_writer import TraceWriter
from vivavoce.agents.turn.inputs import TurnOptionsChanged
from vivavoce.agents.turn.machine import TurnMachine
from vivavoce.agents.turn.options import EndpointingOptions, InterruptionOptions, PipelineTraits, TurnOptions, WakeUp
from vivavoce.pipelines.core.errors import CapabilityError, ConfigurationError
from vivavoce.pipelines.pipeline import Pipeline, PipelineCapabilities

logger = logging.getLogger(__name__)

MAX_ATTEMPTS = 3
"""The most answers begun ahead in one turn, each on other words; unused ones cost their tokens."""
MAX_WAITS = 1.0
"""Seconds of configured waits after the user's speech, above which they are logged."""


class TurnTaking:
    """Has the turn machine go by the options of the agent that has the conversation.

    A task without options of its own keeps those of the agent behind it. An agent without any has the session's.
    """

    def __init__(self, context: SessionContext, options: SessionOptions) -> None:
        self._context = context
        self._live = context.live
        self._options = options
        self.agents: tuple[Agent, ...] = ()
        """The agent that has the conversation, behind it the tasks in it; before the start none."""
        self._live.endpointing, self._live.interruption = options.endpointing, options.interruption

    # --- checks

    def check(self, agents: Sequence[Agent], pipeline: Pipeline) -> None:
        """Refuse a pipeline that cannot take turns by the options of the last of these agents, as `check_turns`."""
        check_turns(self._options, pipeline, *self._endpointing(agents))

    def check_for_all(self, pipeline: Pipeline) -> None:
        """Refuse a pipeline that does not go with the session's options, or those of the agents that go on with it."""
        for count in range(len(self.agents) + 1):
            self.check(self.agents[:count], pipeline)

    def warn(self, agents: Sequence[Agent], pipeline: Pipeline) -> None:
        """Log waits of the last of these agents above `MAX_WAITS`."""
        warn_of_waits(pipeline, *self._endpointing(agents))

    # --- the change

    def take(self, agents: Sequence[Agent], pipeline: Pipeline) -> Exception | None:
        """Have the options of the last of these agents hold from now on.

        Returns:
            The error, which was reported too, if they do not go with the pipeline in use; the session's hold then.
        """
        self.agents, failure = tuple(agents), None
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
        """Have the options of the agent hold with another pipeline, as far as they go with it."""
        if self.agents:
            self.take(self.agents, pipeline)

    def _endpointing(self, agents: Sequence[Agent]) -> tuple[EndpointingOptions, str]:
        for agent in reversed(agents):
            if (own := agent.overrides.endpointing) is not None:
                return own, f" of agent {agent.id!r}"
        return self._options.endpointing, ""

    def _interruption(self, agents: Sequence[Agent]) -> InterruptionOptions:
        own = (agent.overrides.interruption for agent in reversed(agents))
        return next((each for each in own if each is not None), self._options.interruption)


def turn_traits(options: SessionOptions, capabilities: PipelineCapabilities) -> PipelineTraits:
    """Return the traits of a pipeline with these capabilities."""
    may_preempt = options.preemptive and capabilities.can_preempt and not guards_caller(options.guard)
    return PipelineTraits(
        detector_timeout=capabilities.turn_detector_limit,
        remote_decides=capabilities.decides_turns == "remote",
        recogniser_decides=capabilities.recogniser_decides and capabilities.decides_turns == "local",
        hears_audio=capabilities.hears_audio,
        max_attempts=MAX_ATTEMPTS if may_preempt else 0,
        voice_lag=capabilities.voice_lag,
        emits_interims=capabilities.emits_interims,
    )


def check_turns(options: SessionOptions, pipeline: Pipeline, endpointing: EndpointingOptions, whose: str = "") -> None:
    """Refuse a pipeline, or a fallback of it, that cannot take turns by these options.

    Args:
        endpointing: The session's, or an agent's.
        whose: " of agent 'name'", for the error; empty for the session's.
    Raises:
        CapabilityError: Only requests end turns, but the pipeline's server ends them; or the caller's words are to be
            judged, but its model hears them itself.
    """
    capabilities = pipeline.capabilities
    if endpointing.mode == "manual" and capabilities.decides_turns == "remote":
        remedy = "switch off the turn detection of the model's server"
        raise CapabilityError(pipeline.name, f"endpointing mode 'manual'{whose}", remedy)
    if guards_caller(options.guard) and capabilities.hears_audio:
        raise CapabilityError(
            pipeline.name,
            "a guard of the caller",
            "its model hears the caller itself; set ContentGuard(caller=False), or use a CascadingPipeline",
        )
    if pipeline.fallback is not None:
        check_turns(options, pipeline.fallback, endpointing, whose)


def warn_of_waits(pipeline: Pipeline, endpointing: EndpointingOptions, whose: str = "") -> None:
    """Log waits of a pipeline, or of a fallback of it, above `MAX_WAITS`; arguments as of `check_turns`.

    The endpointing delay counts from the true end of speech, so the VAD's own silence is inside it. If only the
    application, or the recogniser, ends turns, there is no wait.
    """
    can, silence = pipeline.capabilities, pipeline.capabilities.vad_silence
    rest = max(0.0, endpointing.min_delay - silence)
    if endpointing.mode != "manual" and not can.recogniser_decides and silence + rest > MAX_WAITS:
        logger.warning(
            "Configured waits after the user's speech%s add up to more than %g s: vad.min_silence %g s, "
            "endpointing.min_delay beyond it %g s",
            whose and f", with the options{whose},",
            MAX_WAITS,
            silence,
            rest,
        )
    if pipeline.fallback is not None:
        warn_of_waits(pipeline.fallback, endpointing, whose)


def make_machine(
    options: SessionOptions, pipeline: Pipeline, wake_up: WakeUp | None, trace: TraceWriter | None
) -> TurnMachine:
    """Return the turn machine of a session; raises as `check_turns`."""
    check_turns(options, pipeline, options.endpointing)
    warn_of_waits(pipeline, options.endpointing)
    turn_options = TurnOptions(
        endpointing=options.endpointing,
        interruption=options.interruption,
        wake_up=wake_up,
        away_after=options.away_after,
        max_errors=options.max_errors,
        traits=turn_traits(options, pipeline.capabilities),
    )
    return TurnMachine(turn_options) if trace is None else trace.recorded_machine(turn_options)
