"""GuardedConnection: a model's connection behind the boundary to its code, with the same methods.

A synchronous call that raises loses the connection: it is reported once, later calls do nothing, and its owner opens
another connection, which receives the history. Streams raise only ProviderErrors.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Sequence

from vivavoce.pipelines.core.boundary import Expected, as_provider_error, guarded
from vivavoce.pipelines.llm.base import Done, GenerateRequest, LLMEvent, TextDelta, Usage
from vivavoce.pipelines.llm.chat_context import ChatItem
from vivavoce.pipelines.llm.tools import Tool, ToolCall
from vivavoce.pipelines.media.frame import AudioFrame, VideoFrame
from vivavoce.pipelines.realtime_model import events as rt
from vivavoce.pipelines.realtime_model.base import RealtimeConnection, RealtimeModel
from vivavoce.pipelines.tts.base import AUDIO_CHUNKS, AudioChunk

EVENTS = Expected(
    rt.RealtimeSpeechStarted,
    rt.RealtimeSpeechEnded,
    rt.RealtimeInputCommitted,
    rt.RealtimeTurnEnded,
    rt.RealtimeTranscript,
    rt.RealtimeReplyStarted,
    rt.RealtimeReplyCancelled,
    rt.RealtimeResumable,
    rt.RealtimeEnding,
    rt.RealtimeProblem,
    Usage,
    ago=(int, float),
    seconds_left=(int, float),
    text=str,
    item_id=str,
    reply_id=str,
    handle=str,
    error=Exception,
)
"""The events that `RealtimeConnection.events()` may yield."""

ANSWER = Expected(TextDelta, AudioChunk, ToolCall, Usage, Done, text=str, frame=AudioFrame, name=str, arguments=str)
"""The items that an answer may yield."""


class GuardedConnection(RealtimeConnection):
    """One connection.

    Args:
        model: The model of the connection.
        on_broken: Called once, with the exception of a synchronous call.
    """

    def __init__(
        self,
        connection: RealtimeConnection,
        model: RealtimeModel,
        on_broken: Callable[[GuardedConnection, Exception], None],
    ) -> None:
        self.capabilities = model.capabilities
        """The model's capabilities when the connection was opened."""
        self._connection = connection
        self._provider = model.provider
        self._on_broken = on_broken
        self._is_broken = False

    def _call(self, call: Callable[..., object], *args: object) -> None:
        if self._is_broken:
            return
        try:
            call(*args)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - the boundary to the model's code: its owner opens another one
            self._is_broken = True
            self._on_broken(self, as_provider_error(error, self._provider, retryable=True))

    # --- the user

    def push(self, frame: AudioFrame) -> None:
        """Take a frame."""
        self._call(self._connection.push, frame)

    def commit(self) -> None:
        """The turn is over."""
        self._call(self._connection.commit)

    def clear(self) -> None:
        """Forget the open turn's audio."""
        self._call(self._connection.clear)

    def push_video(self, frame: VideoFrame) -> None:
        """Show a picture."""
        self._call(self._connection.push_video, frame)

    def events(self) -> AsyncIterator[rt.RealtimeEvent]:
        """Yield the server's events; the caller guards it."""
        return self._connection.events()

    # --- answers

    def generate(self, request: GenerateRequest) -> AsyncGenerator[LLMEvent | AudioChunk, None]:
        """Ask for an answer and stream it.

        Raises:
            ProviderError: While iterating.
        """
        return guarded(lambda: self._connection.generate(request), ANSWER, self._provider)

    def accept(self, reply_id: str) -> AsyncGenerator[LLMEvent | AudioChunk, None]:
        """Return the stream of an answer that the server began.

        Raises:
            KeyError: There is no such answer.
            ProviderError: Another failure.
        """
        try:
            stream = self._connection.accept(reply_id)
        except KeyError:
            raise
        except (Exception, SystemExit) as error:  # noqa: BLE001 - the boundary to the model's code: this answer fails
            raise as_provider_error(error, self._provider) from error
        return guarded(lambda: stream, ANSWER, self._provider)

    def refuse(self, reply_id: str) -> None:
        """Cancel an answer that the server began."""
        self._call(self._connection.refuse, reply_id)

    def say(self, text: str) -> AsyncGenerator[AudioChunk, None]:
        """Speak text.

        Raises:
            ProviderError: While iterating.
        """
        return guarded(lambda: self._connection.say(text), AUDIO_CHUNKS, self._provider)

    def truncate(self, item_id: str, played_seconds: float, heard_text: str) -> None:
        """Cut an answer to its heard part."""
        self._call(self._connection.truncate, item_id, played_seconds, heard_text)

    # --- the conversation

    @property
    def waits_for_outputs(self) -> bool:
        """Whether the server answers nothing while a call has no output."""
        return self._connection.waits_for_outputs

    def append(self, item: ChatItem) -> None:
        """Add an item."""
        self._call(self._connection.append, item)

    def delete(self, item_id: str) -> None:
        """Take an item out."""
        self._call(self._connection.delete, item_id)

    def calls_not_run(self, call_ids: Collection[str], *, is_asked: bool) -> None:
        """Note calls that are not run."""
        self._call(lambda: self._connection.calls_not_run(call_ids, is_asked=is_asked))

    def update(self, instructions: str, tools: Sequence[Tool[..., object]]) -> None:
        """Change instructions and tools."""
        self._call(self._connection.update, instructions, tools)

    async def aclose(self) -> None:
        """End the connection."""
        await self._connection.aclose()
