"""ChatItem: the items of a conversation: messages, tool calls and their outputs, handoffs, config changes.

Items are frozen and have stable ids: a change makes a new item under the old id. Their texts have whole characters.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, get_args

from vivavoce.pipelines.core.characters import make_whole
from vivavoce.pipelines.core.checks import check_choice, check_text
from vivavoce.pipelines.core.ids import new_id
from vivavoce.pipelines.media.frame import VideoFrame

Role = Literal["system", "user", "assistant"]
ROLES: tuple[str, ...] = get_args(Role)


NO_TRANSCRIPT = "[no transcript]"
"""The content of a message whose words are unknown."""


@dataclass(frozen=True, slots=True)
class Voice:
    """A voice in a message: `speaker` said the content from the character `start` on, up to the next voice.

    The speaker is the recogniser's name for the voice, such as "A"; empty for words that no recogniser has heard.
    """

    speaker: str
    start: int = 0

    def __post_init__(self) -> None:
        make_whole(self, "speaker")


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatMessage:
    """Words of the system, the user's side or the assistant.

    Args:
        content: For an assistant, the words that were heard, not all that were generated.
        interrupted: The message was cut short; providers mark it in the request.
        backchannel: The user's "mhm", kept without an answer.
        no_transcript: The words are unknown (yet): a realtime model heard or said them itself. The content is
            `NO_TRANSCRIPT`.
        is_summary: It replaces messages that were removed.
        speaker: The application's name for who said it, in a room with several speakers; empty otherwise.
        voices: The voices that a recogniser has told apart in it, in their order; empty if it tells none apart.
        turn_id: The turn that it belongs to.
        sequence: Grows with each item of a session's history.
        created_at: Wall clock, seconds since the epoch, so that it is valid in another process.
    """

    role: Role
    content: str = field(repr=False)
    id: str = field(default_factory=lambda: new_id("item"))
    interrupted: bool = False
    backchannel: bool = False
    no_transcript: bool = False
    is_summary: bool = False
    images: tuple[VideoFrame, ...] = field(default=(), repr=False)
    speaker: str = ""
    voices: tuple[Voice, ...] = field(default=(), compare=False)
    turn_id: str = ""
    sequence: int = 0
    created_at: float = 0.0
    type: Literal["message"] = "message"

    def __post_init__(self) -> None:
        check_choice("role", self.role, ROLES)
        if type(self.content) is not str:
            object.__setattr__(self, "content", check_text("content", self.content))
        make_whole(self, "content", "id", "speaker", "turn_id")

    @property
    def transcript(self) -> str:
        """The words; empty if they are unknown."""
        return "" if self.no_transcript else self.content

    @property
    def speakers(self) -> tuple[str, ...]:
        """The recogniser's names of the voices, each once."""
        return tuple(dict.fromkeys(voice.speaker for voice in self.voices if voice.speaker))

    def by_voice(self) -> list[tuple[str, str]]:
        """Return speaker and words of each voice, in their order; one part without a speaker if there are no voices."""
        if not self.voices:
            return [("", self.content)]
        ends = [voice.start for voice in self.voices[1:]] + [len(self.content)]
        parts = zip(self.voices, ends, strict=True)
        said = [(voice.speaker, self.content[voice.start : end].strip()) for voice, end in parts]
        return [(speaker, words) for speaker, words in said if words]


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionCall:
    """A tool call made by the model.

    Args:
        arguments: JSON text.
        extra: Data for the provider that made the call; see `ToolCall`. Others ignore it.
    """

    call_id: str
    name: str
    arguments: str = field(repr=False)
    extra: str = field(default="", repr=False)
    id: str = field(default_factory=lambda: new_id("item"))
    turn_id: str = ""
    sequence: int = 0
    created_at: float = 0.0
    type: Literal["function_call"] = "function_call"

    def __post_init__(self) -> None:
        make_whole(self, "call_id", "name", "arguments", "extra", "id", "turn_id")


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionCallOutput:
    """The output of the call with the same `call_id`; a history holds exactly one for each call."""

    call_id: str
    name: str
    output: str = field(repr=False)
    is_error: bool = False
    id: str = field(default_factory=lambda: new_id("item"))
    turn_id: str = ""
    sequence: int = 0
    created_at: float = 0.0
    type: Literal["function_call_output"] = "function_call_output"

    def __post_init__(self) -> None:
        make_whole(self, "call_id", "name", "output", "id", "turn_id")


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentHandoff:
    """The conversation went from one agent to another. For readers of the history: no model receives it.

    Args:
        old_agent, new_agent: Their ids; `old_agent` is empty for the first agent of a conversation.
    """

    old_agent: str
    new_agent: str
    id: str = field(default_factory=lambda: new_id("item"))
    turn_id: str = ""
    sequence: int = 0
    created_at: float = 0.0
    type: Literal["agent_handoff"] = "agent_handoff"

    def __post_init__(self) -> None:
        make_whole(self, "old_agent", "new_agent", "id", "turn_id")


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigChange:
    """An agent's instructions or tools changed. For readers of the history: no model receives it.

    Args:
        agent: The id of the agent.
        instructions: The new ones; None if they did not change.
        tools_added, tools_removed: Names.
    """

    agent: str = ""
    instructions: str | None = field(default=None, repr=False)
    tools_added: tuple[str, ...] = ()
    tools_removed: tuple[str, ...] = ()
    id: str = field(default_factory=lambda: new_id("item"))
    turn_id: str = ""
    sequence: int = 0
    created_at: float = 0.0
    type: Literal["config_change"] = "config_change"

    def __post_init__(self) -> None:
        make_whole(self, "agent", "instructions", "id", "turn_id")


ChatItem = ChatMessage | FunctionCall | FunctionCallOutput | AgentHandoff | ConfigChange
ItemType = Literal["message", "function_call", "function_call_output", "agent_handoff", "config_change"]
