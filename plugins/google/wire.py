"""Gemini Live's conversation, sans-I/O: from the session's requests to the SDK's calls, from server messages to ours.

The API has no ids for answers and items: this module makes both. The model's output belongs to the requested answer, if
any, else to an answer that the server began.

An answer ends at `turnComplete`, also behind tool calls, or when nothing more comes behind them (`rest()`). Words that
come of its turn even later begin the next answer.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

from google.genai import types

from vivavoce.pipelines.core.errors import ProviderError, ProviderProtocolError
from vivavoce.pipelines.core.ids import new_id
from vivavoce.pipelines.llm.base import LLMEvent, TextDelta
from vivavoce.pipelines.llm.chat_context import ChatItem, FunctionCallOutput
from vivavoce.pipelines.llm.tools import ToolCall
from vivavoce.pipelines.media.buffer import RecentFrames
from vivavoce.pipelines.media.frame import AudioFrame, VideoFrame
from vivavoce.pipelines.realtime_model.base import (
    NOT_RUN,
    RealtimeEnding,
    RealtimeEvent,
    RealtimeInputCommitted,
    RealtimeReplyCancelled,
    RealtimeReplyStarted,
    RealtimeResumable,
    RealtimeSetup,
    RealtimeSpeechEnded,
    RealtimeSpeechStarted,
    RealtimeTranscript,
)
from vivavoce.pipelines.tts.base import AudioChunk
from vivavoce.plugins.google import messages
from vivavoce.plugins.google.answer import Answer
from vivavoce.plugins.google.messages import OUTPUT_RATE

PROVIDER = "google"

VOICE = 1000
"""The peak of a frame in which the user may speak."""

MAX_TURN = 60.0
"""Seconds of a turn's audio that are kept if the pipeline decides; older audio is dropped."""


@dataclass(frozen=True, slots=True)
class Send:
    """A call of the SDK's session: its method and arguments."""

    method: str
    arguments: dict[str, Any]


class LiveWire:
    """One connection's conversation.

    Args:
        post: Calls a method of the SDK's session, in order.
        report: Called with events for the session.
        await_more: Called with each piece of an answer from its first tool call on: `rest()` is to be called if nothing
            more comes in time.
        waits: Whether the server says nothing more until it has the outputs of its calls.
    """

    def __init__(
        self,
        setup: RealtimeSetup,
        *,
        post: Callable[[Send], None],
        report: Callable[[RealtimeEvent], None],
        await_more: Callable[[], None],
        waits: bool = False,
    ) -> None:
        self._is_local = setup.turn_detection == "local"
        self._setup = setup
        self._post = post
        self._report = report
        self._await_more = await_more
        self._waits = waits
        self._answer: Answer | None = None
        self._next = Answer()
        """The next answer, with what has come for it already."""
        self._resting: Answer | None = None
        """An answer with calls that has ended before its turn on the server."""
        self._before_next: Answer | None = None
        """The answer of whose turn that came which has come for the next one; also once the turn is complete."""
        self._waiting: dict[str, Answer] = {}
        self._open_turn = RecentFrames(MAX_TURN)
        self._turn: list[AudioFrame] = []
        self._outputs: list[tuple[ToolCall, FunctionCallOutput]] = []
        """They wait until an answer is requested: the server begins to answer by them."""
        self._sent: list[tuple[ToolCall, FunctionCallOutput]] = []
        """The outputs that were sent last."""
        self._calls: dict[str, ToolCall] = {}
        """The calls without an output."""
        self._not_run: set[str] = set()
        """The calls that nobody runs."""
        self._unasked_outputs: set[str] = set()
        """Their waiting outputs for which no answer is requested, by call."""
        self._cancelled_calls: dict[str, ToolCall] = {}
        self._notes: list[str] = []
        """Notes on cancelled calls that have run, for the next request."""
        self._is_unasked = False
        """Whether the server's next answer would be to outputs of calls that were not run: nobody has spoken since."""
        self._item = new_id("item")
        """The user's item for the present transcripts."""
        self._committed = ""
        """The item of the audio that was committed and is not sent yet."""
        self._coming: deque[str] = deque()
        """Items whose audio was sent, behind one without a transcript: words are of that until the model answers."""
        self._is_transcribed = True
        """Whether the item for the present transcripts has its words."""
        self._words = ""
        self._words_before_answer = 0
        self._pushed = 0.0
        self._is_cut = False
        """The server has cut an answer, and has not reported the end of the turn yet."""

    # requests of the session

    def begin(self) -> None:
        """Send the history, unless the server knows it; the setup was sent with the connection."""
        if messages.begins_with_history(self._setup):
            past = messages.contents(self._setup.history.items)
            self._content(past, is_complete=True)

    def push(self, frame: AudioFrame) -> None:
        """Take the user's next frame: it is sent now if the server decides turns."""
        self._pushed += frame.duration
        if self._is_local:
            self._open_turn.push(frame)
        else:
            self._is_unasked = self._is_unasked and max(memoryview(frame.data).cast("h"), default=0) < VOICE
            self._post(Send("send_realtime_input", {"audio": messages.audio(frame)}))

    def push_video(self, frame: VideoFrame) -> None:
        """Show a picture."""
        blob = types.Blob(data=frame.data, mime_type=frame.media_type)
        self._post(Send("send_realtime_input", {"video": blob}))

    def commit(self) -> None:
        """The user's turn is over; it is sent when an answer is requested."""
        self._turn += self._open_turn.drain()
        if self._committed:  # both are sent as one piece of audio, whose transcript is the newer one's
            self._report(RealtimeTranscript(text="", item_id=self._committed, is_final=True))
        self._committed = new_id("item")
        self._report(RealtimeInputCommitted(self._committed))

    def clear(self) -> None:
        """Forget the open turn's audio."""
        self._open_turn.drain()

    def append(self, item: ChatItem) -> None:
        """Add to the conversation; the output of a call waits until an answer is requested, or goes to one that was."""
        if isinstance(item, FunctionCallOutput) and item.call_id in self._calls:
            self._outputs.append((self._calls.pop(item.call_id), item))
            if self._waits and self._is_asked:
                self._send_outputs(is_silent=True)
        elif isinstance(item, FunctionCallOutput) and item.call_id in self._cancelled_calls:
            self._notes.append(messages.cancelled(self._cancelled_calls.pop(item.call_id), item))
        elif turns := messages.contents((item,)):
            self._content(turns, is_complete=False)

    def calls_not_run(self, call_ids: Collection[str], *, is_asked: bool) -> None:
        """Note calls that are not run; see the port."""
        self._not_run.update(call_ids)
        if not is_asked:
            waiting = {call.call_id for call, _ in self._outputs}.intersection(call_ids)
            self._unasked_outputs |= waiting
            if waiting:
                self._drop_rest()
            self._send_unasked()

    def ask(self, extra_instructions: str) -> Answer:
        """Request an answer to the conversation, the user's turn and the waiting outputs."""
        answer = self._requested()
        notes, self._notes = self._notes, []
        if extra_instructions.strip():
            notes.append(messages.NOTE.format(extra_instructions))
        if notes:
            self._content([messages.user_text("\n".join(notes))], is_complete=False)
        if self._turn:
            self._post(Send("send_realtime_input", {"activity_start": types.ActivityStart()}))
            for frame in self._turn:
                self._post(Send("send_realtime_input", {"audio": messages.audio(frame)}))
            self._turn = []
            self._coming.append(self._committed)
            self._committed = ""
            if self._words or self._is_transcribed:
                self._begin_item()
            self._send_outputs()
            self._post(Send("send_realtime_input", {"activity_end": types.ActivityEnd()}))
        elif self._outputs:
            self._send_outputs()
        else:
            self._content([], is_complete=True)
        return answer

    def say(self, text: str) -> Answer:
        """Request a text to be spoken."""
        answer = self._requested()
        self._content([messages.user_text(messages.SAY.format(text))], is_complete=True)
        return answer

    def accept(self, reply_id: str) -> Answer:
        """Return an answer that the server began.

        Raises:
            KeyError: There is no such answer.
        """
        return self._waiting.pop(reply_id)

    def refuse(self, reply_id: str) -> None:
        """Cancel an answer that the server began."""
        answer = self._waiting.pop(reply_id, None)
        if answer is not None:
            self.give_up(answer)

    def give_up(self, answer: Answer) -> None:
        """Cancel an answer that nobody reads any more, unless it is over or cancelled already."""
        unread = answer.feed.take_unread()
        if not (answer.is_over or answer.is_cancelled):
            answer.cancel()
            if answer is self._answer:
                self._content([], is_complete=False)  # any message interrupts the model
                self._send_unasked()
        elif unread and answer in (self._resting, self._before_next):
            self._drop_rest()
        for item in unread:
            if isinstance(item, ToolCall):
                self._leave(item)

    def unfinished(self) -> Answer | None:
        """Return the cancelled answer that the server has not ended yet."""
        answer = self._answer
        return answer if answer is not None and answer.is_cancelled and not answer.is_over else None

    def rest(self) -> None:
        """End an answer with calls of which nothing more has come: the server may wait for their outputs."""
        answer = self._answer
        if answer is not None and answer.has_calls and not (answer.is_over or answer.is_cancelled):
            self._finish("stop")
            self._resting = answer

    def lose(self, error: ProviderError) -> None:
        """The connection is lost: no answer will come any more."""
        for answer in (*self._waiting.values(), *([self._answer] if self._answer else [])):
            answer.feed.end(error)
            answer.over.set()

    # messages of the server

    def feed(self, message: types.LiveServerMessage) -> None:
        """Take one message.

        Raises:
            ProviderProtocolError: It breaks the API's description.
        """
        if self._coming and messages.is_output(message):
            self._begin_item()
        if (update := message.session_resumption_update) is not None and update.resumable and update.new_handle:
            self._report(RealtimeResumable(update.new_handle))
        if message.go_away is not None:
            self._report(RealtimeEnding(messages.seconds_of(message.go_away.time_left)))
        if message.voice_activity is not None:
            self._take_activity(message.voice_activity)
        if message.usage_metadata is not None:
            self._take_usage(message.usage_metadata)
        if message.tool_call is not None:
            self._take_calls(message.tool_call.function_calls or [])
        if message.tool_call_cancellation is not None:
            self._take_cancellation(message.tool_call_cancellation.ids or [])
        if message.server_content is not None:
            self._take_content(message.server_content)

    def _take_content(self, content: types.LiveServerContent) -> None:
        if (words := content.input_transcription) is not None:
            self._hear(words.text or "", is_final=bool(words.finished))
        if (words := content.interim_input_transcription) is not None and words.text:
            self._caller_speaks()
            self._report(RealtimeTranscript(text=self._words + words.text, item_id=self._item, is_final=False))
        if (words := content.output_transcription) is not None and words.text:
            answer = self._current()
            self._put(answer, TextDelta(words.text, answer.item_id))
        for part in (content.model_turn.parts or []) if content.model_turn is not None else []:
            self._take_part(part)
        if content.interrupted:
            self._drop_rest()
            self._finish("cancelled")
            self._is_cut = not content.turn_complete
        elif content.turn_complete and self._is_cut:  # of the cut answer, not of a newer one
            self._is_cut = False
        elif content.turn_complete:
            reason = content.turn_complete_reason
            ended = self._answer or self._resting
            self._finish(reason.value.casefold() if reason is not None else "stop")
            # A model that thinks in the background may say more before it has the outputs.
            thinks_on = content.interaction_status is types.InteractionStatus.IN_PROGRESS
            self._resting = ended if ended is not None and ended.has_calls and thinks_on else None

    def _take_part(self, part: types.Part) -> None:
        if part.thought:
            return
        answer = self._current()
        if part.inline_data is not None and part.inline_data.data:
            kind = part.inline_data.mime_type or ""
            if not kind.startswith("audio/pcm"):
                raise ProviderProtocolError(f"needed audio/pcm, got {kind!r}", provider=PROVIDER)
            data = part.inline_data.data
            if whole := data[: len(data) - len(data) % 2]:
                self._put(answer, AudioChunk(AudioFrame(whole, rate_of(kind)), item_id=answer.item_id))
        if part.text and self._setup.answers == "text":
            self._put(answer, TextDelta(part.text, answer.item_id))

    def _take_calls(self, calls: list[types.FunctionCall]) -> None:
        answer = self._current()
        for call in calls:
            if not call.name:
                raise ProviderProtocolError("needed a tool call with a name, got none", provider=PROVIDER)
            made = ToolCall(call_id=call.id or new_id("call"), name=call.name, arguments=json.dumps(call.args or {}))
            self._calls[made.call_id] = made
            self._put(answer, made)
            if answer.is_cancelled:
                self._leave(made)

    def _take_cancellation(self, call_ids: list[str]) -> None:
        """The server forgets these calls, and takes no output of them any more."""
        for call_id in call_ids:
            if (call := self._calls.pop(call_id, None)) is not None:
                self._cancelled_calls[call_id] = call
        for call, output in (*self._outputs, *self._sent):  # it may have been sent as the server cancelled the call
            if call.call_id in call_ids and call.call_id not in self._not_run:
                self._notes.append(messages.cancelled(call, output))
        self._outputs = [pair for pair in self._outputs if pair[0].call_id not in call_ids]
        self._sent = [pair for pair in self._sent if pair[0].call_id not in call_ids]
        if not (self._calls or self._outputs):
            self._drop_rest()

    def _take_usage(self, usage: types.UsageMetadata) -> None:
        taken = messages.usage(usage)
        if self._answer is not None and not self._answer.is_cancelled:
            self._answer.take_usage(taken)
        else:
            self._report(taken)

    def _take_activity(self, activity: types.VoiceActivity) -> None:
        ago = max(0.0, self._pushed - messages.seconds_of(activity.audio_offset)) if activity.audio_offset else 0.0
        kind = activity.voice_activity_type
        if kind == types.VoiceActivityType.ACTIVITY_START:
            self._caller_speaks()
            self._report(RealtimeSpeechStarted(ago))
        elif kind == types.VoiceActivityType.ACTIVITY_END:
            self._report(RealtimeSpeechEnded(ago))

    def _current(self) -> Answer:
        """Return the answer for the present message: one that the server begins, if none was requested."""
        self._is_cut = False
        if self._answer is not None:
            return self._answer
        if self._resting is not None:
            self._before_next = self._resting
            return self._next
        answer = self._begin(is_remote=True)
        if self._is_unasked:
            self._is_unasked = False
            self.give_up(answer)
            return answer
        self._waiting[answer.reply_id] = answer
        self._words_before_answer = len(self._words)
        self._report(RealtimeInputCommitted(self._item))
        self._report(RealtimeReplyStarted(answer.reply_id, self._item))
        return answer

    def _requested(self) -> Answer:
        self._is_unasked = False
        return self._begin(is_remote=False)

    def _begin(self, *, is_remote: bool) -> Answer:
        answer, self._next = self._next, Answer()
        answer.begin(is_remote=is_remote)
        self._answer, self._resting, self._before_next = answer, None, None
        if answer.has_calls:
            self._await_more()
        return answer

    def _put(self, answer: Answer, item: LLMEvent | AudioChunk) -> None:
        answer.put(item)
        if answer.has_calls:
            self._await_more()

    def _drop_rest(self) -> None:
        """The turn of the calls is cut: what came of it behind their answer is not to be heard."""
        rest, self._next, self._resting, self._before_next = self._next, Answer(), None, None
        self.give_up(rest)

    def _finish(self, reason: str) -> None:
        answer, self._answer = self._answer, None
        if answer is None:
            return
        # Words that come while the model speaks are late ones of the turn before, unless they cut the model.
        is_next_turn = reason == "cancelled" and answer.reply_id
        self._settle(self._words_before_answer if is_next_turn else len(self._words))
        answer.finish("tool_calls" if answer.has_calls and reason == "stop" else reason)
        if reason == "cancelled" and not answer.is_cancelled:
            self._report(RealtimeReplyCancelled(answer.reply_id))
        self._send_unasked()

    def _hear(self, text: str, *, is_final: bool) -> None:
        self._words += text
        if text:
            self._caller_speaks()
        if is_final:
            is_nothing = self._is_local and not (self._words or self._is_transcribed)
            self._settle(len(self._words))
            if is_nothing:
                self._report(RealtimeTranscript(text="", item_id=self._item, is_final=True))
            if self._coming:
                self._begin_item()
        elif self._words:
            self._report(RealtimeTranscript(text=self._words, item_id=self._item, is_final=False))

    def _caller_speaks(self) -> None:
        """An answer that the server begins from here on is to the caller."""
        self._is_unasked = False
        if not self._is_local:
            self._drop_rest()

    def _settle(self, length: int) -> None:
        """End the transcript of the user's item after so many characters.

        The rest belongs to the next item if the server ends turns. Else it is of the audio that was sent last.
        """
        settled, self._words = self._words[:length], self._words[length:]
        if settled:
            self._is_transcribed = True
            self._report(RealtimeTranscript(text=settled, item_id=self._item, is_final=True))
        if not self._is_local:
            self._item = new_id("item")
        self._words_before_answer = 0

    def _begin_item(self) -> None:
        """Transcripts from here on are of the next item whose audio was sent."""
        self._settle(len(self._words))
        self._item, self._is_transcribed = self._coming.popleft(), False

    @property
    def _is_asked(self) -> bool:
        """Whether an answer was requested that has not begun; a server that waits for outputs begins it by them."""
        answer = self._answer
        return answer is not None and not (answer.reply_id or answer.has_begun or answer.is_cancelled)

    def _leave(self, call: ToolCall) -> None:
        """Give an output to a call that nobody runs."""
        if call.call_id not in self._calls:  # the server has cancelled it
            return
        self.append(FunctionCallOutput(call_id=call.call_id, name=call.name, output=NOT_RUN, is_error=True))
        self.calls_not_run({call.call_id}, is_asked=False)

    def _send_unasked(self) -> None:
        """Send the outputs for which no answer is requested to a server that decides turns, lest it waits for them."""
        is_free = self._answer is None or self._answer.is_cancelled
        if self._unasked_outputs and not self._is_local and is_free:
            waiting = [pair for pair in self._outputs if pair[0].call_id not in self._unasked_outputs]
            self._outputs = [pair for pair in self._outputs if pair[0].call_id in self._unasked_outputs]
            self._send_outputs(is_silent=True)
            self._outputs = waiting
            # Another server obeys SILENT; without transcripts it is not known whether the user has spoken since.
            self._is_unasked = self._waits and self._setup.transcribe

    def _send_outputs(self, *, is_silent: bool = False) -> None:
        if self._outputs:
            outputs = [messages.response(output, is_silent=is_silent) for _, output in self._outputs]
            self._post(Send("send_tool_response", {"function_responses": outputs}))
            self._sent, self._outputs = self._outputs, []
        self._unasked_outputs.clear()

    def _content(self, turns: list[types.Content], *, is_complete: bool) -> None:
        self._post(Send("send_client_content", {"turns": turns or None, "turn_complete": is_complete}))


def rate_of(kind: str) -> int:
    """Return the rate in a MIME type such as `audio/pcm;rate=24000`.

    Raises:
        ProviderProtocolError: It differs from the API's.
    """
    rate = kind.partition("rate=")[2] or str(OUTPUT_RATE)
    if rate != str(OUTPUT_RATE):
        raise ProviderProtocolError(f"needed audio of {OUTPUT_RATE} Hz, got {kind!r}", provider=PROVIDER)
    return OUTPUT_RATE
