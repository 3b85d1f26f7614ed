"""SpeechHost: what a reply needs of its session, and the limits it keeps."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from vivavoce.agents.agent import Agent
from vivavoce.agents.audio.given_audio import GivenAudio
from vivavoce.agents.audio.playout import Playout
from vivavoce.agents.core.speech_handle import SpeechHandle
from vivavoce.agents.telemetry.observer import SessionObserver
from vivavoce.agents.tools.executor import ToolBatch
from vivavoce.agents.turn.inputs import TurnInput
from vivavoce.agents.turn_records.turn_record import TurnRecordBuilder
from vivavoce.pipelines.core.checks import check_number, check_whole
from vivavoce.pipelines.core.clock import Clock
from vivavoce.pipelines.llm.base import GenerateRequest, TextDelta, Usage
from vivavoce.pipelines.llm.chat_context import ChatContext, ChatMessage, Role
from vivavoce.pipelines.llm.tools import ToolCall, ToolChoice
from vivavoce.pipelines.media.frame import VideoFrame
from vivavoce.pipelines.pipeline import PipelineCapabilities, PipelineConnection


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeechLimits:
    """How long a reply waits for its providers and hooks, in seconds; then the turn fails.

    What each option does: docs/options.md.
    """

    llm_first_token: float = 10.0
    """From a request to the model's first word or tool call; also to the first text of a stream given to `say()`."""
    llm_stall: float = 10.0
    """Between two things that the model sends after that; also between two texts of a stream given to `say()`."""
    tts_first_byte: float = 5.0
    """From text that can be spoken to the voice's first audio."""
    tts_stall: float = 5.0
    """Between two pieces of audio after that, also of audio given in place of a synthesis."""
    hook_timeout: float = 10.0
    """For one run of `on_user_turn_completed`."""
    max_tool_steps: int = 5
    """Steps of tool calls in one answer; then the model has to answer without tools."""

    def __post_init__(self) -> None:
        for name in ("llm_first_token", "llm_stall", "tts_first_byte", "tts_stall", "hook_timeout"):
            check_number(name, getattr(self, name), above=0, unit="s")
        check_whole("max_tool_steps", self.max_tool_steps, at_least=0)


AMENDED = (
    "The last message of the user was transcribed wrongly at first, and your answer after it was to the wrong words. "
    "The message is corrected now. Answer it as it is now, without repeating what you have said already."
)
"""Instructions for the answer to a message that a late final has changed after its first answer was heard."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeechRequest:
    """What is to be spoken or answered.

    Args:
        text: Spoken as it is (`say`); None where the model answers.
        audio: Spoken instead of a synthesis of `text`.
        instructions: For this generation only (`reply`).
        user_item: The user's message that is answered.
        remote_reply_id: The answer that a remote model began by itself.
        by_hook: A hook of an agent that comes or goes asked for it.
    """

    text: str | AsyncIterator[str] | None = field(default=None, repr=False)
    audio: GivenAudio | None = field(default=None, repr=False)
    add_to_history: bool = True
    instructions: str = field(default="", repr=False)
    frames: tuple[VideoFrame, ...] = ()
    tool_choice: ToolChoice = ToolChoice()
    wait_for_playback: bool = True
    user_item: ChatMessage | None = None
    remote_reply_id: str = ""
    by_hook: bool = False


class SpokenHistory(Protocol):
    """What a reply writes into the history."""

    def add_message(
        self, role: Role, text: str, *, turn_id: str = "", interrupted: bool = False, said_as: Sequence[str] = ()
    ) -> ChatMessage:
        """Append a message, such as what the caller heard; `said_as`: what a realtime model that said it calls it."""

    def add_cut(self, item_id: str, share: float, turn_id: str) -> None:
        """Append an answer of which that share was heard, and whose words a realtime model still owes."""

    def replace_text(self, item: ChatMessage, text: str) -> ChatMessage:
        """Change a user's message as the agent's hook wants it."""

    def remove(self, item: ChatMessage) -> None:
        """Take a dropped turn's message back."""


class FlowTurns(Protocol):
    """The session's conversation flow, if it has one."""

    @property
    def flow(self) -> object | None:
        """What answers the caller in place of the model."""

    async def begin_turn(self, handle: SpeechHandle, transcript: str) -> AsyncGenerator[TextDelta, None]:
        """Begin a turn that the speech of `handle` answers, and return its text."""


class SpeechHost(Protocol):
    """The session, as a reply sees it."""

    clock: Clock
    limits: SpeechLimits
    fade: float
    """Seconds of fade-out when speech is cut."""

    @property
    def observer(self) -> SessionObserver: ...
    @property
    def flows(self) -> FlowTurns: ...
    @property
    def playout(self) -> Playout: ...
    @property
    def history(self) -> SpokenHistory: ...
    @property
    def agent(self) -> Agent: ...
    @property
    def connection(self) -> PipelineConnection: ...
    @property
    def capabilities(self) -> PipelineCapabilities: ...

    def post(self, event: TurnInput) -> None:
        """Enqueue an input of the turn machine."""

    def context(self) -> ChatContext:
        """Return a copy of the conversation, calls that are not in the history yet included."""

    def request_context(self, record: TurnRecordBuilder, speech_id: str) -> tuple[ChatContext, str]:
        """Return `context()` for a request that the speech makes now, with the words that are heard before its own.

        Results that the request is the first to carry go into `record`. Where a model keeps the conversation itself,
        the words come second, as instructions for this answer.
        """

    def step_request(
        self,
        context: ChatContext,
        *,
        turn_id: str,
        may_call: bool,
        extra_instructions: str = "",
        tool_choice: ToolChoice | None = None,
    ) -> GenerateRequest:
        """Return the request of a model step for the agent that has the conversation."""

    def run_tools(self, handle: SpeechHandle, calls: Sequence[ToolCall], turn_id: str) -> ToolBatch:
        """Run calls outside the reply's scope; the history gets them when all are settled and `release_tools` came."""

    def release_tools(self, batch: ToolBatch) -> None:
        """What was said before the calls is over, or their speech was cut; may be told again."""

    def add_usage(
        self,
        usage: Usage | None = None,
        *,
        characters: int = 0,
        audio_seconds: float = 0.0,
        record: TurnRecordBuilder | None = None,
    ) -> None:
        """Count what was used, in the turn of `record` too."""

    def report_error(self, error: Exception, source: str) -> None:
        """Emit an `error` event."""
