"""ModelConversation: reports changes of a session's history to a realtime model."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Collection, Iterator, Sequence
from contextlib import contextmanager

from vivavoce.pipelines.core.errors import ProviderConnectionError
from vivavoce.pipelines.llm.base import LLMEvent, TextDelta
from vivavoce.pipelines.llm.chat_context import ChatItem, ChatMessage, FunctionCallOutput
from vivavoce.pipelines.llm.remote_conversation import RemoteConversation
from vivavoce.pipelines.llm.tools import ToolCall
from vivavoce.pipelines.media.frame import VideoFrame
from vivavoce.pipelines.realtime_model.base import RealtimeConnection
from vivavoce.pipelines.realtime_model.reconnecting import ReconnectingModel
from vivavoce.pipelines.tts.base import AudioChunk


class AnswerInProgress:
    """Notes the calls and items of one answer, which its connection knows.

    Args:
        known: The ids that the connection knows.
        call_made: Called with each call.
        has_begun: Whether a part of it has come.
    """

    def __init__(self, known: set[str], call_made: Callable[[ToolCall, set[str]], None], *, has_begun: bool) -> None:
        self._known = known
        self._call_made = call_made
        self.has_begun = has_begun

    def take(self, item: LLMEvent | AudioChunk) -> None:
        """Note a part of it."""
        self.has_begun = True
        if isinstance(item, ToolCall):
            self._known.add(item.call_id)
            self._call_made(item, self._known)
        elif isinstance(item, AudioChunk | TextDelta):
            self._known.add(item.item_id)


class ModelConversation(RemoteConversation):
    """Maps the session's items to the model's names for them, and has each call get exactly one output.

    Args:
        provider: The model's.
    """

    def __init__(self, model: ReconnectingModel, provider: str) -> None:
        self._model = model
        self._provider = provider
        self._calls: dict[str, ToolCall] = {}
        """The calls of the model's answers that have no output yet."""
        self._answer: AnswerInProgress | None = None
        self._answered: dict[str, str] = {}
        self._began_at: dict[str, RealtimeConnection | None] = {}
        """The connections whose servers have begun answers on their own."""
        self._names: dict[str, tuple[str, ...]] = {}

    def append(self, item: ChatItem, said_as: Sequence[str] = ()) -> None:
        """Send the item unless the model's present connection has it."""
        if isinstance(item, FunctionCallOutput):
            is_there = self._calls.pop(item.call_id, None) is None and item.call_id in self._model.known
        else:
            is_there = not self._model.known.isdisjoint(said_as)
        if not is_there:
            self._model.append(item)
        self._names[item.id] = tuple(said_as) or (item.id,)

    def amend(self, item: ChatMessage) -> None:
        """Send the message's words unless the model's present connection has heard them."""
        if self._model.amend(item):
            self._names[item.id] = (item.id,)

    @contextmanager
    def answering(self, *, is_requested: bool) -> Iterator[AnswerInProgress]:
        """Follow an answer while it is streamed.

        Args:
            is_requested: Whether the session has requested it; else the server has begun it on its own.
        """
        with self._model.answering() as known:
            self._answer = answer = AnswerInProgress(known, self._call_made, has_begun=not is_requested)
            try:
                yield answer
            finally:
                if self._answer is answer:
                    self._answer = None

    def _call_made(self, call: ToolCall, known: set[str]) -> None:
        if known is self._model.known:  # else another connection has taken over, which has not made it
            self._calls[call.call_id] = call

    @property
    def takes_results(self) -> bool:
        """Whether the server waits for results to begin the answer that was requested last."""
        connection, answer = self._model.connection, self._answer
        waits = connection is not None and self._answers_results and connection.waits_for_outputs
        return waits and answer is not None and not answer.has_begun

    @property
    def _answers_results(self) -> bool:
        """Whether the server of the present connection begins to answer by results."""
        return self._model.connection is not None and self._model.connection.capabilities.answers_results

    def show_result(self, output: FunctionCallOutput) -> None:
        """Send a result before it is in the history, if its call is open in the present connection."""
        if output.call_id in self._calls and output.call_id in self._model.known and not self._answers_results:
            self.append(output)

    def leave_calls(self, running: Collection[str], output: str) -> Collection[str]:
        """Give this output to each open call that is not run."""
        self._calls = {call_id: call for call_id, call in self._calls.items() if call_id in self._model.known}
        left = [call for call in self._calls.values() if call.call_id not in running]
        for call in left:
            self.append(FunctionCallOutput(call_id=call.call_id, name=call.name, output=output, is_error=True))
        if not self._answers_results:
            return ()
        self._not_run([call.call_id for call in left], is_asked=True)
        return [call.call_id for call in left]

    def ask_no_more(self, call_ids: Collection[str]) -> None:
        """Have the outputs of these calls sent that still wait for a request."""
        self._not_run(call_ids, is_asked=False)

    def _not_run(self, call_ids: Collection[str], *, is_asked: bool) -> None:
        if call_ids and self._model.connection is not None:
            self._model.connection.calls_not_run(call_ids, is_asked=is_asked)

    def reply_began(self, reply_id: str, item_id: str) -> None:
        """Note that the model's server answers that item on its own."""
        self._answered[reply_id] = item_id
        self._began_at[reply_id] = self._model.connection

    def accept(self, reply_id: str) -> AsyncGenerator[LLMEvent | AudioChunk, None]:
        """Return the stream of an answer that the model's server began on its own.

        Raises:
            KeyError: There is no such answer.
            ProviderConnectionError: Its connection is lost.
        """
        connection = self._model.connection
        if connection is None or self._began_at.get(reply_id, connection) is not connection:
            problem = f"the connection of the answer {reply_id!r} was lost before its first part"
            raise ProviderConnectionError(problem, provider=self._provider)
        return connection.accept(reply_id)

    def refuse(self, reply_id: str) -> None:
        """Cancel such an answer, if its connection is there."""
        connection = self._model.connection
        began_at = self._began_at.pop(reply_id, connection)
        if connection is not None and began_at is connection:
            connection.refuse(reply_id)

    def bind_turn(self, turn_id: str, remote_reply_id: str) -> None:
        """Note which of the model's items belong to that turn."""
        self._model.bind(turn_id, self._answered.pop(remote_reply_id, ""))

    def show(self, frame: VideoFrame) -> None:
        """Send a picture to a model that takes video; without a connection it is dropped."""
        self._model.show(frame)

    def remove(self, item: ChatItem) -> None:
        """Have the model forget a message."""
        if isinstance(item, ChatMessage):
            self._model.remove(item.turn_id if item.role == "user" else "", self._names.pop(item.id, ()))
