"""SessionHistory: the conversation, its only writer, and who is told of changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypedDict, get_args

from vivavoce.agents import events as ev
from vivavoce.agents.core.context import SessionContext
from vivavoce.agents.history.feed import HistoryFeed
from vivavoce.agents.history.sink import ChangeKind
from vivavoce.pipelines.core.checks import check_choice, check_flag, check_instance, check_items, check_text, shown
from vivavoce.pipelines.core.errors import ConfigurationError, SessionError
from vivavoce.pipelines.core.words import word_end
from vivavoce.pipelines.llm.chat_context import (
    AgentHandoff,
    ChatContext,
    ChatItem,
    ChatMessage,
    ConfigChange,
    FunctionCall,
    FunctionCallOutput,
    Role,
    Summariser,
)
from vivavoce.pipelines.llm.chat_items import NO_TRANSCRIPT, ROLES
from vivavoce.pipelines.llm.tools import ToolCall, ToolOutput
from vivavoce.pipelines.media.frame import VideoFrame
from vivavoce.pipelines.pipeline import RemoteConversation

ITEM_KINDS = get_args(ChatItem)


_EVENTS: dict[ChangeKind, type[ev.HistoryItemAdded | ev.HistoryItemReplaced | ev.HistoryItemRemoved]] = {
    "added": ev.HistoryItemAdded,
    "replaced": ev.HistoryItemReplaced,
    "removed": ev.HistoryItemRemoved,
}


class _Stamp(TypedDict):
    turn_id: str
    sequence: int
    created_at: float


class SessionHistory:
    """Readable during and after the session. Each change is an event, and goes to the session's sink by `feed`."""

    def __init__(self, session: SessionContext, feed: HistoryFeed | None = None) -> None:
        self._session = session
        self._context = ChatContext()
        self._sequence = 0
        self._cut: dict[str, tuple[ChatMessage, float]] = {}
        self.feed = feed
        """Hands the changes to the session's sink."""

    @property
    def items(self) -> tuple[ChatItem, ...]:
        """All items, oldest first."""
        return self._context.items

    @property
    def last_sequence(self) -> int:
        """The highest sequence number given so far."""
        return self._sequence

    def restore(self, context: ChatContext, last_sequence: int) -> None:
        """Begin with the items of an earlier session. They are no news to anybody but the sink.

        Raises:
            ConfigurationError: There are items already.
        """
        if len(self._context):
            raise ConfigurationError(
                f"a session that resumes needs an empty history, got {len(self._context)} items; add them after start()"
            )
        self._context, self._sequence = context.copy(), last_sequence
        if self.feed is not None:
            self.feed.begin_with(self._context)

    def messages(self, role: Role | None = None) -> list[ChatMessage]:
        """Return the messages, of one role if given."""
        return self._context.messages(role)

    def copy(self) -> ChatContext:
        """Return the conversation as it is now."""
        return self._context.copy()

    def add_message(
        self,
        role: Role,
        text: str,
        *,
        images: Sequence[VideoFrame] = (),
        speaker: str = "",
        turn_id: str = "",
        interrupted: bool = False,
        backchannel: bool = False,
        in_model: bool = False,
        said_as: Sequence[str] = (),
    ) -> ChatMessage:
        """Append a message and return it; the next model step is sent it.

        For an agent's own code too, before the start and while it runs: what was looked up, who is calling, a picture.
        It makes nobody speak: `session.reply()` does. A sync tool may call it from its thread.

        Args:
            images: Pictures, for a model that sees.
            speaker: Who said it, where a room has several.
            in_model: Whether a realtime model has heard it itself.
            said_as: What a realtime model that has said it calls it.
        Raises:
            ConfigurationError: An argument is of another kind, or there is neither text nor a picture, and no realtime
                model has heard or said it.
        """
        check_choice("role", role, ROLES)
        text, speaker = check_text("text", text), check_text("speaker", speaker)
        images = check_items("images", images, VideoFrame, remedy="encode a picture: VideoFrame(data, 'image/jpeg')")
        for name, flag in (("interrupted", interrupted), ("backchannel", backchannel), ("in_model", in_model)):
            check_flag(name, flag)
        has_words = bool(text.strip() or images)
        if not (has_words or in_model or turn_id):
            raise ConfigurationError(f"a message needs text or images, got {text!r}; leave an empty one out")

        def add() -> ChatMessage:
            message = ChatMessage(
                role=role,
                content=text if has_words else NO_TRANSCRIPT,
                no_transcript=not has_words,
                images=images,
                speaker=speaker,
                interrupted=interrupted,
                backchannel=backchannel,
                **self._stamp(turn_id),
            )
            self._add(message, in_model=in_model, said_as=said_as)
            return message

        return self._session.inbox.result_of(add)

    def replace_text(self, item: ChatMessage, text: str, *, turn_id: str = "") -> ChatMessage:
        """Give a message new text under its id; return the new item. One that was taken out stays out.

        No message is left empty: without text the item stays as it is.

        Args:
            turn_id: The turn that it belongs to from now on; empty: the same as before.

        Raises:
            ConfigurationError: `item` is no message, or `text` no str.
        """
        check_instance("item", item, ChatMessage)
        text = check_text("text", text)
        if not text.strip():
            return item
        new = replace(item, content=text, no_transcript=False, turn_id=turn_id or item.turn_id)
        if self._has(item):
            self._context.replace(new)
            self._tell("replaced", new)
        return new

    def add_cut(self, item_id: str, share: float, turn_id: str) -> None:
        """Append an answer that was cut before its words were known; `settle_cut()` brings those that were heard.

        Args:
            item_id: What the model calls it.
            share: How much of its audio was heard, 0 to 1.
        """
        message = self.add_message("assistant", "", interrupted=True, turn_id=turn_id, in_model=True)
        self._cut[item_id] = (message, share)

    def settle_cut(self, item_id: str, text: str) -> None:
        """The words of an answer that was cut have come: those that were heard, by its share, enter its message.

        A message of which no whole word was heard is taken out.
        """
        message, share = self._cut.pop(item_id, (None, 0.0))
        if message is None:
            return
        heard = text[: word_end(text, int(len(text) * share))].strip()
        if heard:
            self.replace_text(message, heard)
        elif self._has(message):
            self._take_out(message)

    def remove(self, item: ChatItem) -> None:
        """Take an item out, if it is there; the next model step is not sent it.

        A realtime model that can take things out of its own conversation (`RealtimeCapabilities.deletes`) does.

        Raises:
            ConfigurationError: It is no item of a history.
        """
        if not isinstance(item, ITEM_KINDS):
            raise ConfigurationError(f"need an item of the history, got {shown(item)}; see history.items")
        if self._has(item):
            self._take_out(item)
            if (model := self._model) is not None:
                model.remove(item)

    def _take_out(self, item: ChatItem) -> None:
        self._context.remove(item.id)
        self._tell("removed", item)

    async def summarise(self, by: Summariser, *, keep_items: int = 10, limit: float = 30.0) -> None:
        """Put one summary in the place of all but the newest items; see `ChatContext.summarise`.

        A failure leaves the history as it was.

        Raises:
            SessionError: Items that were summarised were changed meanwhile.
            ProviderError: No summary came.
        """
        before = self._context.copy()
        after = await before.summarise(by, keep_items=keep_items, limit=limit)
        kept, known = {item.id for item in after}, {item.id for item in before}
        gone = [item for item in before if item.id not in kept]
        present = set(map(id, self._context))
        if any(id(item) not in present for item in gone):
            raise SessionError("the history was changed while it was being summarised; it stays as it was")
        for summary in (item for item in after if item.id not in known):
            self._context.insert(summary, before=gone[-1].id)
            self._tell("added", summary)
        for item in gone:
            if self._has(item):
                self._take_out(item)

    def user_item(self, turn_id: str) -> ChatMessage | None:
        """Return the user's message of a turn."""
        return next((m for m in reversed(self.messages("user")) if m.turn_id == turn_id), None)

    def add_calls(self, calls: Sequence[ToolCall], outputs: Sequence[ToolOutput], turn_id: str) -> None:
        """Append settled calls with their outputs, calls first, both in the order of the calls."""
        for call in calls:
            self._add(
                FunctionCall(call_id=call.call_id, name=call.name, arguments=call.arguments, **self._stamp(turn_id))
            )
        for output in outputs:
            self._add(
                FunctionCallOutput(
                    call_id=output.call_id,
                    name=output.name,
                    output=output.output,
                    is_error=output.is_error,
                    **self._stamp(turn_id),
                )
            )

    def add_handoff(self, old_agent: str, new_agent: str, *, turn_id: str = "") -> AgentHandoff:
        """Note that the conversation went from one agent to another, by their ids, and return the item."""
        handoff = AgentHandoff(old_agent=old_agent, new_agent=new_agent, **self._stamp(turn_id))
        self._add(handoff)
        return handoff

    def add_config_change(
        self,
        agent: str,
        *,
        instructions: str | None = None,
        tools_added: Sequence[str] = (),
        tools_removed: Sequence[str] = (),
        turn_id: str = "",
    ) -> ConfigChange:
        """Note new instructions (None: as before) or tools, by name, of an agent, and return the item."""
        change = ConfigChange(
            agent=agent,
            instructions=instructions,
            tools_added=tuple(tools_added),
            tools_removed=tuple(tools_removed),
            **self._stamp(turn_id),
        )
        self._add(change)
        return change

    def _has(self, item: ChatItem) -> bool:
        return any(other.id == item.id for other in reversed(self._context.items))

    def _add(self, item: ChatItem, *, in_model: bool = False, said_as: Sequence[str] = ()) -> None:
        self._context.append(item)
        self._tell("added", item)
        if not in_model and (model := self._model) is not None:
            model.append(item, said_as)

    @property
    def _model(self) -> RemoteConversation | None:
        """The conversation that a realtime model keeps; other pipelines ignore its changes."""
        live = self._session.live
        return live.connection.conversation if live.is_connected else None

    def _tell(self, kind: ChangeKind, item: ChatItem) -> None:
        self._session.log.note(_EVENTS[kind], turn_id=item.turn_id, item=item)
        if self.feed is not None:
            self.feed.put(kind, item)

    def _stamp(self, turn_id: str) -> _Stamp:
        self._sequence += 1
        return _Stamp(turn_id=turn_id, sequence=self._sequence, created_at=self._session.clock.wall())
