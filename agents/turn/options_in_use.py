"""OptionsInUse: the options by which the turn machine decides now. All parts of the machine read them here."""

from __future__ import annotations

from vivavoce.agents.turn.options import EndpointingOptions, InterruptionOptions, PipelineTraits, TurnOptions


class OptionsInUse:
    """The options of the agent that has the conversation, and the traits of the pipeline in use.

    The machine is the only writer. Parts keep no copies: deadlines are computed from these values, so that a change
    holds from its own step on.
    """

    def __init__(self, options: TurnOptions) -> None:
        self.endpointing: EndpointingOptions = options.endpointing
        self.interruption: InterruptionOptions = options.interruption
        self.traits: PipelineTraits = options.traits

    @property
    def is_manual(self) -> bool:
        """Whether only a request ends the user's turn (push-to-talk)."""
        return self.endpointing.mode == "manual"

    @property
    def model_hears_turns(self) -> bool:
        """Whether the model hears the caller itself, in turns that the session ends."""
        return self.traits.hears_audio and not self.traits.remote_decides

    @property
    def has_attempts(self) -> bool:
        """Whether answers may be begun before a turn is over."""
        return self.traits.max_attempts > 0 and not self.traits.remote_decides

    def take_agent(self, endpointing: EndpointingOptions, interruption: InterruptionOptions) -> None:
        """Use these options, since another agent has the conversation from now on."""
        self.endpointing, self.interruption = endpointing, interruption

    def take_pipeline(self, traits: PipelineTraits) -> None:
        """Use these traits, since another pipeline hears and answers from now on."""
        self.traits = traits
