"""ReplyContext: the session as its replies see it: what they speak by, and where they leave what happened."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from anyio.abc import TaskGroup

from vivavoce.agents.agent import Agent
from vivavoce.agents.audio.playout import Playout
from vivavoce.agents.core.context import SessionContext
from vivavoce.agents.core.speech_handle import SpeechHandle
from vivavoce.agents.history.history import SessionHistory
from vivavoce.agents.records import UsageRecord
from vivavoce.agents.session.options import SessionOptions
from vivavoce.agents.speech.context import SpeechLimits
from vivavoce.agents.speech.flow import FlowRunner
from vivavoce.agents.speech.request_window import RequestWindow
from vivavoce.agents.speech.transcripts import TranscriptFeed
from vivavoce.agents.speech.warm_task import WarmTask
from vivavoce.agents.telemetry.observer import SessionObserver
from vivavoce.agents.tools.calls import ToolCalls
from vivavoce.agents.tools.executor import ToolBatch
from vivavoce.agents.turn.inputs import TurnInput
from vivavoce.agents.turn_records.turn_record import TurnRecordBuilder
from vivavoce.pipelines.llm.base import GenerateRequest, Usage
from vivavoce.pipelines.llm.chat_context import ChatContext, ChatMessage
from vivavoce.pipelines.llm.tools import ToolCall, ToolChoice
from vivavoce.pipelines.pipeline import PipelineCapabilities, PipelineConnection


@dataclass(slots=True)
class LiveConnection:
    """What a running session is linked to."""

    playout: Playout
    transcripts: TranscriptFeed
    lane: WarmTask
    words_before: Callable[[str], list[str]]
    """Returns the texts that are heard before the speech of an id, which waits; those that are known and kept."""


class ReplyContext:
    """Fills `SpeechHost` for one session."""

    def __init__(
        self,
        context: SessionContext,
        *,
        options: SessionOptions,
        history: SessionHistory,
        tools: ToolCalls,
        flows: FlowRunner,
    ) -> None:
        self._context = context
        self.clock = context.clock
        self.limits: SpeechLimits = options.speech
        self.fade = options.interruption.fade
        self.history = history
        self.links: LiveConnection | None = None
        self.flows = flows
        self._tools = tools
        self._window = RequestWindow(options.context_window, context.report_error)

    @property
    def _linked(self) -> LiveConnection:
        assert self.links is not None, "the session is linked before it speaks"
        return self.links

    @property
    def observer(self) -> SessionObserver:
        """Who watches the session."""
        return self._context.observer

    @property
    def playout(self) -> Playout:
        """Where speech goes."""
        return self._linked.playout

    @property
    def agent(self) -> Agent:
        """Who has the conversation."""
        return self._context.live.agent

    @property
    def connection(self) -> PipelineConnection:
        """The session's pipeline."""
        return self._context.live.connection

    @property
    def capabilities(self) -> PipelineCapabilities:
        """What the pipeline can do."""
        return self._context.live.capabilities

    @property
    def group(self) -> TaskGroup:
        """The session's task group."""
        return self._context.group

    def post(self, event: TurnInput) -> None:
        """Enqueue an input; nothing is decided on the caller's stack."""
        self._context.inbox.post(event)

    def context(self) -> ChatContext:
        """Return a copy of the conversation for a model, calls still running included."""
        return self._tools.with_pending(self.history.copy())

    def request_context(self, record: TurnRecordBuilder, speech_id: str) -> tuple[ChatContext, str]:
        """Return what `context_window` lets through of `context()` for a request that the speech makes now.

        Words that are heard before its own are in it; where a model keeps the conversation itself, they come second, as
        instructions for this answer. Results that the request is the first to carry go into `record`.
        """
        context, to_hear = self.context(), ""
        words = self._linked.words_before(speech_id)
        if words and self.capabilities.generates_audio:
            to_hear = f"Before your answer the caller hears you say: {' '.join(words)!r}"
        else:
            for text in words:
                context.append(ChatMessage(role="assistant", content=text, turn_id=record.turn_id))
        context = self._window.cut(context, self._tools.unanswered_calls)
        for tool in self._tools.carried():
            record.add_tool(tool)
        return context, to_hear

    def context_ahead(self, turn_id: str, text: str) -> ChatContext:
        """Return what a request would be sent if the open turn were committed now, as `text`."""
        context, item = self.history.copy(), self.history.user_item(turn_id)
        if item is None:
            context.append(ChatMessage(role="user", content=text, turn_id=turn_id))
        else:
            context.replace(replace(item, content=text))
        return self._window.cut(self._tools.with_pending(context), self._tools.unanswered_calls, is_quiet=True)

    def step_request(
        self,
        context: ChatContext,
        *,
        turn_id: str,
        may_call: bool,
        extra_instructions: str = "",
        tool_choice: ToolChoice | None = None,
    ) -> GenerateRequest:
        """Return the request of a model step for the agent that has the conversation; also of one begun ahead."""
        agent = self.agent
        return GenerateRequest(
            context=context,
            instructions=agent.instructions,
            extra_instructions=extra_instructions,
            tools=agent.tools,
            tool_choice=(tool_choice or ToolChoice()) if may_call else ToolChoice(mode="none"),
            turn_id=turn_id,
        )

    def run_tools(self, handle: SpeechHandle, calls: Sequence[ToolCall], turn_id: str) -> ToolBatch:
        """Run calls in the session's group, outside the reply's scope."""
        return self._tools.start(self._context.group, handle, calls, self.agent.tools, turn_id)

    def release_tools(self, batch: ToolBatch) -> None:
        """What was said before the calls is over, or their speech was cut."""
        self._tools.release(batch)

    def predict_end_of_turn(self, text: str) -> None:
        """Ask the turn detector about the pause after `text`."""
        spoken = self.history.messages("assistant")
        self.connection.predict_end_of_turn(text, spoken[-1].content if spoken else "")

    def keep_backchannel(self, text: str, turn_id: str) -> None:
        """Keep the user's "mhm", which nothing answers."""
        self.connection.drop_audio()
        self.history.add_message("user", text, turn_id=turn_id, backchannel=True)

    def add_usage(
        self,
        usage: Usage | None = None,
        *,
        characters: int = 0,
        audio_seconds: float = 0.0,
        record: TurnRecordBuilder | None = None,
    ) -> None:
        """Count what was used, in the turn of `record` too."""
        usage = usage or Usage()
        used = UsageRecord(
            llm_input_tokens=usage.input_tokens,
            llm_output_tokens=usage.output_tokens,
            llm_cached_tokens=usage.cached_tokens,
            tts_characters=characters,
            tts_audio_seconds=audio_seconds,
        )
        self._context.log.add_usage(used)
        if record is not None:
            record.add_usage(used)

    def report_error(self, error: Exception, source: str) -> None:
        """Emit an `error` event."""
        self._context.report_error(error, source)
