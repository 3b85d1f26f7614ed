"""ReplyContext: the parts of a session that its replies use, and the requests of their model steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from vivavoce.agents.audio.playout import Playout
from vivavoce.agents.core.context import SessionContext
from vivavoce.agents.guard.guarding import Guarding
from vivavoce.agents.history.history import HistoryControl
from vivavoce.agents.records import UsageRecord
from vivavoce.agents.speech.limits import SpeechLimits
from vivavoce.agents.speech.request_window import RequestWindow
from vivavoce.agents.speech.stages import Stages
from vivavoce.agents.tools.calls import ToolCalls
from vivavoce.agents.turn_records.stages import CHECKPOINT_STAGE
from vivavoce.agents.turn_records.turn_record import TurnRecordBuilder, used_tokens
from vivavoce.pipelines.llm.base import GenerateRequest, Usage
from vivavoce.pipelines.llm.chat_context import ChatContext, ChatMessage
from vivavoce.pipelines.llm.tools import ToolChoice

if TYPE_CHECKING:
    from vivavoce.agents.extension.attachments import Attachments
    from vivavoce.agents.guard.content_guard import ContentGuard
    from vivavoce.agents.speech.flow import FlowRunner
    from vivavoce.agents.speech.seeing import Seeing
    from vivavoce.pipelines.llm.context_window import ContextPolicy


@dataclass(frozen=True, slots=True, eq=False)
class AnswerSources:
    """The code that may answer in place of the model: a conversation flow, and the extensions of the session."""

    flows: FlowRunner
    extensions: Attachments


class ReplyContext:
    """Given to each reply.

    Args:
        session: The context of the whole session.
        window: Cuts the conversation to the part that a model's request carries.
        guarding: Judges what is said, if the session has a content guard.
    """

    def __init__(
        self,
        session: SessionContext,
        *,
        history: HistoryControl,
        tools: ToolCalls,
        sources: AnswerSources,
        playout: Playout,
        window: RequestWindow,
        guarding: Guarding,
        limits: SpeechLimits,
    ) -> None:
        self.session = session
        self.live = session.live
        self.clock = session.clock
        self.history = history
        self.checkpoints = tools.checkpoints
        self.tools = tools
        self.flows = sources.flows
        self.extensions = sources.extensions
        self.stages = Stages(session)
        self.playout = playout
        self.guarding = guarding
        self.limits = limits
        self._window = window

    @property
    def fade(self) -> float:
        """Seconds of fade-out when speech is held or cut."""
        return self.live.interruption.fade

    async def first_frame(self, record: TurnRecordBuilder) -> None:
        """Wait for a short time until the store has the turn that `record` answers, before its first frame."""
        if await self.checkpoints.turn_kept(record.turn_id):
            record.mark(*CHECKPOINT_STAGE, self.clock.now())

    def conversation(self, but: str = "") -> ChatContext:
        """Return a copy of the conversation for a model, calls that still run included.

        Args:
            but: The id of a message that is included although it waits for its verdict.
        """
        return self.tools.with_pending(self.history.for_model(but))

    async def request_context(self, record: TurnRecordBuilder, words_before: Sequence[str]) -> tuple[ChatContext, str]:
        """Return the part of the conversation that a request carries now, and instructions for this answer.

        Args:
            record: Gets the results that this request is the first to carry.
            words_before: Texts that are heard before the speech. They are added to the conversation; where a model
                keeps the conversation itself, the instructions name them.
        """
        if self.guarding.has_unjudged:
            await self.guarding.judge_left(record)
        context, to_hear = self.conversation(), ""
        if words_before and self.live.capabilities.generates_audio:
            to_hear = f"Before your answer the caller hears you say: {' '.join(words_before)!r}"
        else:
            for text in words_before:
                context.append(ChatMessage(role="assistant", content=text, turn_id=record.turn_id))
        context = await self._window.cut(context, self.tools.unanswered_calls, record.turn_id)
        for tool in self.tools.carried(record.turn_id):
            record.add_tool(tool)
        return context, to_hear

    def context_ahead(self, turn_id: str, text: str) -> ChatContext | None:
        """Return the part of the conversation that a request would carry if the open turn ended now, as `text`.

        The result is None if an async policy chooses the part.
        """
        context, item = self.history.for_models(), self.history.user_item(turn_id)
        voices = self.history.caller_words.voices.in_text(text)
        if item is None or all(other.id != item.id for other in self.history.for_model()):
            context.append(ChatMessage(role="user", content=text, voices=voices, turn_id=turn_id))
        else:
            context.replace(replace(item, content=text, voices=voices))
        part = self.tools.with_pending(self.history.view.of(context))
        return self._window.cut_ahead(part, self.tools.unanswered_calls, turn_id)

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
        return GenerateRequest(
            context=context,
            instructions=self.live.instructions,
            extra_instructions=extra_instructions,
            tools=self.live.tools,
            tool_choice=(tool_choice or ToolChoice()) if may_call else ToolChoice(mode="none"),
            turn_id=turn_id,
        )

    def add_usage(
        self,
        usage: Usage | None = None,
        *,
        characters: int = 0,
        audio_seconds: float = 0.0,
        record: TurnRecordBuilder | None = None,
    ) -> None:
        """Add to the usage of the session, and of the turn of `record`: tokens of the model, or speech of the voice."""
        if usage is None:
            used = UsageRecord(tts_characters=characters, tts_audio_seconds=audio_seconds)
            self.session.add_usage(used, "tts")
        else:
            used = used_tokens(usage)
            self.session.add_usage(used, "llm", usage.made_by)
        if record is not None:
            record.add_usage(used)


def reply_context(
    session: SessionContext,
    history: HistoryControl,
    tools: ToolCalls,
    sources: AnswerSources,
    playout: Playout,
    seeing: Seeing,
    *,
    guard: ContentGuard | None,
    policy: ContextPolicy | None,
    limits: SpeechLimits,
) -> ReplyContext:
    """Return the context of a session's replies.

    Args:
        seeing: The pictures of the caller.
        guard: Judges what is said.
        policy: Chooses the part of the conversation that a request carries; None for all of it.
    """
    return ReplyContext(
        session,
        history=history,
        tools=tools,
        sources=sources,
        playout=playout,
        window=RequestWindow(policy, seeing, session.report_error, limit=limits.hook_timeout),
        guarding=Guarding(session, history, guard),
        limits=limits,
    )
