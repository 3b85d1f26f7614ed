"""SessionHistory, the conversation as applications see and change it, and HistoryControl, its only writer."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Literal, Protocol, TypedDict, TypeVar, get_args

from vivavoce.agents import events as ev
from vivavoce.agents.core.context import SessionContext
from vivavoce.agents.history.caller_words import CallerWords
from vivavoce.agents.history.model_view import ModelView
from vivavoce.pipelines.core.checks import check_choice, check_flag, check_instance, check_items, check_text, shown
from vivavoce.pipelines.core.errors import ConfigurationError, SessionError
from vivavoce.pipelines.core.words import count_words, word_end
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

T = TypeVar("T")

ITEM_KINDS = get_args(ChatItem)

ChangeKind = Literal["added", "replaced", "removed"]

_EVENTS: dict[ChangeKind, type[ev.HistoryItemAdded | ev.HistoryItemReplaced | ev.HistoryItemRemoved]] = {
    "added": ev.HistoryItemAdded,
    "replaced": ev.HistoryItemReplaced,
    "removed": ev.HistoryItemRemoved,
}


class HistoryKeeper(Protocol):
    """Keeps the history outside of the session. Its calls do not wait."""

    @property
    def is_open(self) -> bool: ...

    def begin_with(self, items: Iterable[ChatItem]) -> None: ...

    def put(self, kind: ChangeKind, item: ChatItem) -> None: ...

    async def aclose(self) -> None: ...


class _Stamp(TypedDict):
    turn_id: str
    sequence: int
    created_at: float


class SessionHistory:
    """The conversation; it can be read during and after the session."""

    def __init__(self, control: HistoryControl) -> None:
        self._control = control

    @property
    def items(self) -> tuple[ChatItem, ...]:
        """All items, oldest first."""
        return self._control.items

    def messages(self, role: Role | None = None) -> list[ChatMessage]:
        """Return the messages, of one role if given."""
        return self._control.messages(role)

    def copy(self) -> ChatContext:
        """Return the conversation as it is now."""
        return self._control.copy()

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
    ) -> ChatMessage:
        """Append a message and return it; the next model step receives it.

        An agent's code may add the result of a search, the caller's name or a picture, before the start and while the
        session runs, from a sync tool's thread too. No speech follows from it: `session.reply()` asks for speech.

        Args:
            images: Pictures, for a model that sees.
            speaker: The speaker's name, if a room has several.
            turn_id: The turn that the message belongs to.
            interrupted: Whether the message was cut.
            backchannel: Whether the user only showed that they listen.
        Raises:
            ConfigurationError: An argument is of another kind, or there is neither text nor a picture.
        """
        check_choice("role", role, ROLES)
        text, speaker, turn_id = (
            check_text("text", text),
            check_text("speaker", speaker),
            check_text("turn_id", turn_id),
        )
        images = check_items("images", images, VideoFrame, remedy="encode a picture: VideoFrame(data, 'image/jpeg')")
        for name, flag in (("interrupted", interrupted), ("backchannel", backchannel)):
            check_flag(name, flag)
        if not (text.strip() or images):
            raise ConfigurationError(f"a message needs text or images, got {text!r}; leave an empty one out")
        add = partial(
            self._control.add_message,
            role,
            text,
            images=images,
            speaker=speaker,
            turn_id=turn_id,
            interrupted=interrupted,
            backchannel=backchannel,
        )
        return self._control.on_loop(add)

    def replace_text(self, item: ChatMessage, text: str, *, turn_id: str = "") -> ChatMessage:
        """Give a message new text under its id, and return the new item. An item that was removed is not added again.

        An empty text changes nothing.

        Args:
            turn_id: The turn that it belongs to from now on; "" for the same as before.
        Raises:
            ConfigurationError: `item` is no message, or `text` no str.
        """
        check_instance("item", item, ChatMessage)
        text = check_text("text", text)
        return self._control.on_loop(lambda: self._control.replace_text(item, text, turn_id=turn_id))

    def remove(self, item: ChatItem) -> None:
        """Remove an item, if it is there; the next model step does not receive it.

        A realtime model whose conversation allows it (`RealtimeCapabilities.deletes`) forgets it too.

        Raises:
            ConfigurationError: It is no item of a history.
        """
        if not isinstance(item, ITEM_KINDS):
            raise ConfigurationError(f"need an item of the history, got {shown(item)}; see history.items")
        self._control.on_loop(lambda: self._control.remove(item))

    async def summarise(self, by: Summariser, *, keep_items: int = 10, limit: float = 30.0) -> None:
        """Replace all but the newest items by one summary; see `ChatContext.summarise`.

        After a failure the history is unchanged.

        Raises:
            SessionError: Items that were summarised were changed meanwhile.
            ProviderError: The summary failed.
        """
        before = self._control.on_loop(self._control.for_models)
        after = await before.summarise(by, keep_items=keep_items, limit=limit)
        self._control.on_loop(lambda: self._control.replace_by_summary(before, after))


class HistoryControl:
    """The state of the conversation, which the session changes and its `history` shows.

    Each change is an event, and goes to the session's store by `keeper`, and to a realtime model's own conversation.

    Args:
        judges_caller: Whether a content guard judges the caller: no model gets their words before the verdict.
    """

    def __init__(self, session: SessionContext, *, judges_caller: bool = False) -> None:
        self._session = session
        self._context = ChatContext()
        self._sequence = 0
        self._stamped_at = 0.0
        """The time of the newest item. A clock that is set back does not change the order of the items."""
        self._removed: set[str] = set()
        """The ids of the items that were removed."""
        self._cut: dict[str, tuple[ChatMessage, float]] = {}
        self.caller_words = CallerWords(are_judged=judges_caller)
        """The verdicts on the caller's messages, and the edits of them."""
        self.view = ModelView()
        """The part of the history that the model of the present agent gets."""
        self.history = SessionHistory(self)
        self.keeper: HistoryKeeper | None = None
        """Keeps the changes in the session's store."""
        self.run = ""
        """The end of the ids of the turns of this run. A store with earlier runs of the session needs ids that those
        runs have not used."""

    @property
    def items(self) -> tuple[ChatItem, ...]:
        """All items, oldest first."""
        return self._context.items

    @property
    def last_sequence(self) -> int:
        """The highest sequence number given so far."""
        return self._sequence

    @property
    def known_ids(self) -> set[str]:
        """The ids of all present and removed items."""
        return self._removed | {item.id for item in self._context}

    def keep(self, keeper: HistoryKeeper) -> None:
        """Hand each change to that keeper. Call it before there are items."""
        self.keeper = keeper

    def begin_run(self, run: str) -> None:
        """End the ids of the turns with `run`. Call it before the first turn."""
        self.run = run

    def on_loop(self, call: Callable[[], T]) -> T:
        """Return the result of `call`, made on the session's event loop, from any thread."""
        return self._session.inbox.result_of(call)

    def restore(self, context: ChatContext, last_sequence: int, *, unjudged: Collection[str] = ()) -> None:
        """Begin with the items of an earlier session: only the keeper receives them.

        Args:
            unjudged: Ids of messages of the caller that wait for a verdict, if this session has a guard.
        Raises:
            ConfigurationError: There are items already.
        """
        if len(self._context):
            raise ConfigurationError(
                f"a session that resumes needs an empty history, got {len(self._context)} items; add them after start()"
            )
        self._context, self._sequence = context.copy(), last_sequence
        self._stamped_at = max((item.created_at for item in context), default=0.0)
        for message in context.messages("user"):
            if message.id in unjudged:
                self.caller_words.heard(message, is_new=True)
        if self.keeper is not None:
            self.keeper.begin_with(self._context)

    def messages(self, role: Role | None = None) -> list[ChatMessage]:
        """Return the messages, of one role if given."""
        return self._context.messages(role)

    def copy(self) -> ChatContext:
        """Return the conversation as it is now."""
        return self._context.copy()

    def for_models(self, but: str = "") -> ChatContext:
        """Return the conversation without the caller's messages that wait for a verdict, except for the message
        `but`."""
        return self.caller_words.without_unjudged(self._context.copy(), but)

    def for_model(self, but: str = "") -> ChatContext:
        """Return the part of the conversation that the present agent's model gets; `but` as in `for_models()`."""
        return self.view.of(self.for_models(but))

    def message(self, item: ChatMessage) -> ChatMessage | None:
        """Return the present form of a message; None if it was removed."""
        found = (other for other in reversed(self._context.items) if other.id == item.id)
        return next((other for other in found if isinstance(other, ChatMessage)), None)

    def user_item(self, turn_id: str) -> ChatMessage | None:
        """Return the user's message of a turn."""
        return next((m for m in reversed(self.messages("user")) if m.turn_id == turn_id), None)

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
        is_heard: bool = False,
    ) -> ChatMessage:
        """Append a message and return it. A message without words represents speech whose transcript may come later.

        Args:
            is_heard: Whether the caller has said the words in this session.
            in_model: Whether a realtime model has heard or said it itself.
            said_as: The ids of a realtime model's items that said it.
        """
        has_words = bool(text.strip() or images)
        message = ChatMessage(
            role=role,
            content=text if has_words else NO_TRANSCRIPT,
            no_transcript=not has_words,
            images=tuple(images),
            speaker=speaker,
            voices=self.caller_words.voices.in_text(text) if is_heard else (),
            interrupted=interrupted,
            backchannel=backchannel,
            **self._stamp(turn_id),
        )
        is_withheld = is_heard and self.caller_words.heard(message, is_new=True)
        self._add(message, in_model=in_model or is_withheld, said_as=said_as)
        return message

    def replace_text(self, item: ChatMessage, text: str, *, turn_id: str = "") -> ChatMessage:
        """Give a message new text, and return the new item; see `SessionHistory.replace_text`."""
        return self._rewrite(item, text, turn_id, is_edited=True)

    def _rewrite(self, item: ChatMessage, text: str, turn_id: str, *, is_edited: bool) -> ChatMessage:
        if not text.strip():
            return item
        voices = self.caller_words.voices.of(item, text, is_edited=is_edited)
        new = replace(item, content=text, voices=voices, no_transcript=False, turn_id=turn_id or item.turn_id)
        if (before := self.message(item)) is not None:
            self._context.replace(new)
            if before.role == "user":
                self.caller_words.edited(before, new)
                self._session.log.set_words(new.turn_id, new.content, is_edited=is_edited)
            self._report("replaced", new)
        return new

    def hear(self, item: ChatMessage, text: str, *, turn_id: str = "") -> ChatMessage:
        """Give a message of the caller the present words of its turn, and return the new item."""
        new = self._rewrite(item, text, turn_id, is_edited=False)
        if new is not item and self._has(new):
            self.caller_words.heard(new, is_new=False)
        return new

    def amend(self, item: ChatMessage, text: str) -> None:
        """Correct the words of a message by a late final. If the message is an edit of the same words, it stays."""
        if item.content == text or self.caller_words.is_edit_of(item.id, text):
            return
        new = self.hear(item, text)
        has_more = item.no_transcript or count_words(text) > count_words(item.content)
        if has_more and (model := self._model) is not None:
            model.amend(new)

    def judged(self, item: ChatMessage) -> None:
        """Note that a message of the caller has passed the content guard: models get it from now on."""
        if self.caller_words.judged(item.id) and (model := self._model) is not None:
            model.append(item)

    def add_cut(self, item_id: str, share: float, turn_id: str) -> None:
        """Append an answer that was cut before its words were known; `settle_cut()` receives the words.

        Args:
            item_id: The realtime model's id of it.
            share: The part of its audio that was heard, 0 to 1.
        """
        message = self.add_message("assistant", "", interrupted=True, turn_id=turn_id, in_model=True)
        self._cut[item_id] = (message, share)

    def settle_cut(self, item_id: str, text: str) -> None:
        """Write the heard part of a cut answer into its message, by its share, now that the words are known.

        If no whole word of it was heard, the message is removed.
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
        """Remove an item, if it is there, here and from a realtime model's conversation."""
        if self._has(item) and not self._take_out(item) and (model := self._model) is not None:
            model.remove(item)

    def withhold(self, item: ChatMessage) -> None:
        """Remove a message of the caller that the guard or the agent holds back; the record of its turn has no
        words."""
        self.remove(item)
        self._session.log.set_words(item.turn_id, "", is_edited=True)

    def replace_by_summary(self, before: ChatContext, after: ChatContext) -> None:
        """Insert the summary that `after` has and `before` has not, and remove the items that it replaces.

        Raises:
            SessionError: One of those items was changed meanwhile.
        """
        kept, known = {item.id for item in after}, {item.id for item in before}
        gone = [item for item in before if item.id not in kept]
        present = set(map(id, self._context))
        if any(id(item) not in present for item in gone):
            raise SessionError("the history was changed while it was being summarised; it stays as it was")
        for summary in (item for item in after if item.id not in known):
            self._context.insert(summary, before=gone[-1].id)
            self._report("added", summary)
        for item in gone:
            if self._has(item):
                self._take_out(item)

    def condense(self, since: int, until: int, summary: str) -> None:
        """Remove the messages and calls of a task's dialogue, and put the summary, if it has words, in their place.

        Args:
            since: The last sequence number before the dialogue.
            until: The last sequence number of the dialogue; later messages of the user stay.
        """
        before = {item.turn_id for item in self._context if item.sequence <= since and item.turn_id}
        gone: list[ChatItem] = []
        for item in self._context:
            is_late = item.sequence > until and isinstance(item, ChatMessage) and item.role == "user"
            is_note = isinstance(item, ChatMessage) and item.role not in ("user", "assistant")
            is_kept = is_late or is_note or isinstance(item, AgentHandoff | ConfigChange) or item.turn_id in before
            if item.sequence > since and not is_kept:
                gone.append(item)
        if summary.strip():
            self.add_message("system", summary)
        for item in gone:
            self.remove(item)

    def add_calls(self, calls: Sequence[ToolCall], outputs: Sequence[ToolOutput], turn_id: str) -> None:
        """Append settled calls with their outputs, calls first, both in the order of the calls."""
        for call in calls:
            self._add(
                FunctionCall(
                    call_id=call.call_id,
                    name=call.name,
                    arguments=call.arguments,
                    extra=call.extra,
                    **self._stamp(turn_id),
                )
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

    def add_handoff(self, old_agent: str, new_agent: str, *, turn_id: str = "") -> None:
        """Append the handoff from one agent to another, by their ids."""
        self._add(AgentHandoff(old_agent=old_agent, new_agent=new_agent, **self._stamp(turn_id)))

    def add_config_change(
        self,
        agent: str,
        *,
        instructions: str | None = None,
        tools_added: Sequence[str] = (),
        tools_removed: Sequence[str] = (),
    ) -> None:
        """Append an agent's new instructions (None for no change) or tools, by name."""
        change = ConfigChange(
            agent=agent,
            instructions=instructions,
            tools_added=tuple(tools_added),
            tools_removed=tuple(tools_removed),
            **self._stamp(""),
        )
        self._add(change)

    def _has(self, item: ChatItem) -> bool:
        return any(other.id == item.id for other in reversed(self._context.items))

    def _add(self, item: ChatItem, *, in_model: bool = False, said_as: Sequence[str] = ()) -> None:
        self._context.append(item)
        self._report("added", item)
        if not in_model and (model := self._model) is not None:
            model.append(item, said_as)

    def _take_out(self, item: ChatItem) -> bool:
        """Remove an item; return whether it was withheld from a realtime model until its verdict."""
        self._context.remove(item.id)
        self._removed.add(item.id)
        is_withheld = self.caller_words.removed(item.id)
        self._report("removed", item)
        return is_withheld

    @property
    def _model(self) -> RemoteConversation | None:
        """The conversation that a realtime model keeps; other pipelines ignore its changes."""
        live = self._session.live
        return live.connection.conversation if live.is_connected else None

    def _report(self, kind: ChangeKind, item: ChatItem) -> None:
        self._session.log.note(_EVENTS[kind], turn_id=item.turn_id, item=item)
        if self.keeper is not None:
            self.keeper.put(kind, item)

    def _stamp(self, turn_id: str) -> _Stamp:
        self._sequence += 1
        self._stamped_at = max(self._stamped_at, self._session.clock.wall())
        return _Stamp(turn_id=turn_id, sequence=self._sequence, created_at=self._stamped_at)
