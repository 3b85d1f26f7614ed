"""ReplyAudio: the audio of a reply's present step, and the words of it that the caller has heard.

BrokenAnswer: goes on from those words when a step was cut by the loss of its model's connection.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import anyio

from vivavoce.agents.audio.utterance import Utterance
from vivavoce.agents.speech.floor_pass import FloorPass
from vivavoce.agents.speech.unvoiced import Unvoiced
from vivavoce.agents.turn.inputs import PlayoutFinished, PlayoutStarted
from vivavoce.pipelines.core.errors import ProviderConnectionError, first_error

if TYPE_CHECKING:
    from vivavoce.agents.core.context import Live
    from vivavoce.agents.core.speech_handle import SpeechControl
    from vivavoce.agents.speech.blaming import Failure
    from vivavoce.agents.speech.context import ReplyContext
    from vivavoce.agents.turn_records.turn_record import TurnRecordBuilder
    from vivavoce.pipelines.llm.chat_context import ChatMessage

logger = logging.getLogger(__name__)

T = TypeVar("T")

HEARD_LIMIT = 0.5
"""Seconds in which a voice that knows tells what was heard of a speech that is cut; else the estimate stays."""

GO_ON = (
    "The connection was lost in the midst of your last answer: the caller has heard it as far as it stands in the "
    "conversation. Go on from there, without repeating it."
)


class ReplyAudio:
    """Opens an utterance for each step, plays it while the speech has the floor, and commits its heard words.

    The wait for the end of an utterance is limited by its audio, and by the turn machine, which ends each pause.

    Args:
        in_history: Whether heard words enter the history.
        on_played: Called when a step has been played to its end.
    """

    def __init__(
        self,
        context: ReplyContext,
        speech: SpeechControl,
        record: TurnRecordBuilder,
        *,
        in_history: bool,
        on_played: Callable[[], None],
    ) -> None:
        self.floor = FloorPass(speech.floor_is)
        self.utterance: Utterance | None = None
        """The audio of the present step; None without any."""
        self._context = context
        self._speech = speech
        self._record = record
        self._in_history = in_history
        self._on_played = on_played
        self.unvoiced = Unvoiced(context.session, record)
        """The texts that its voice left out."""
        self.unsettled = 0.0
        """Estimated seconds that were played of an utterance which was stopped and is not committed yet."""
        self._is_settled = True
        self._has_words = False
        self._on_settled: anyio.Event | None = None

    @property
    def unplayed(self) -> Utterance | None:
        """The utterance that plays or waits for the floor, or None."""
        return None if self.utterance is None or self.utterance.done.is_set() else self.utterance

    @property
    def is_empty(self) -> bool:
        """Whether the present step has no audio."""
        return self.utterance is None or not self.utterance.total

    def note_if_empty(self, who: str) -> None:
        """Note an answer that has nothing to speak; the present step ends the answer.

        Args:
            who: The author of the text.
        """
        if self.is_empty and not self.unvoiced.is_in_step:  # text filters may leave nothing to speak
            self._record.empty()
            logger.warning("Speech %s: the %s's answer is empty", self._speech.id, who)

    def end_step(self, *, is_last: bool, is_spoken: bool) -> None:
        """End the audio of the present step, which is complete.

        Args:
            is_last: Whether no step follows.
            is_spoken: Whether the model itself has spoken it.
        """
        if (utterance := self.utterance) is None:
            return
        utterance.set_last(is_last)
        if is_spoken:
            if utterance.total:
                self.unvoiced.voiced()
            else:
                self.unvoiced.judge_step(utterance.heard, provider="realtime_model", component="llm")
            utterance.finish()  # now its words are those that can be heard

    def begin_step(self) -> None:
        """Begin a step without audio."""
        self.unvoiced.begin_step()
        self.utterance = None

    def open(self) -> Utterance:
        """Open the utterance of the present step; it plays once the speech has the floor."""
        playout = self._context.playout
        self.utterance = Utterance(
            self._speech.id,
            playout.rate,
            on_started=self._on_started,
            on_finished=self._on_finished,
            rewind_seconds=playout.rewind_seconds,
            turn_id=self._record.turn_id,
        )
        self.floor.play(self.utterance, playout)
        return self.utterance

    def answer(self) -> Utterance:
        """Return the utterance of a model's step, opened with the first call."""
        if self.utterance is None:
            self._record.agent_text.append("")
        return self.utterance or self.open()

    def stop(self) -> None:
        """Stop the utterance, commit the words that were heard, and cut the rest in the model's conversation."""
        utterance, self.utterance = self.utterance, None
        if utterance is None or utterance.done.is_set():
            return
        self.unsettled = self._context.playout.stop(utterance, self._context.fade) / utterance.rate
        self._is_settled = False
        self._context.playout.when_settled(utterance, partial(self._settle, utterance))

    async def break_off(self) -> bool:
        """Stop the present step and commit its heard words; another step of the speech follows.

        Returns:
            Whether any of its words are in the history.
        """
        self._has_words = False
        was_heard = self.utterance is not None and self.utterance.started_at is not None
        playout = self._context.playout
        is_held = playout.is_paused
        self.stop()
        if is_held:  # the pause is the speech's, not the utterance's: it holds for the next step
            playout.pause()
        await self.settled()
        if was_heard:
            now = self._context.clock.now()
            self._record.step_played(now)
            self._context.session.inbox.post(PlayoutFinished(self._speech.id, now, is_last=False))
        return self._has_words

    async def settled(self) -> None:
        """Wait until the heard words of a stopped utterance are committed; sink and voice have limits."""
        if not self._is_settled:
            self._on_settled = anyio.Event()
            with anyio.CancelScope(shield=True):
                await self._on_settled.wait()

    def _settle(self, utterance: Utterance, position: int) -> None:
        message = self._enter(utterance.heard.at(position), utterance, interrupted=True)
        if utterance.has_teller(position):
            self._context.session.group.start_soon(self._ask_voice, utterance, position, message)
        else:
            self._end_cut(utterance, position)

    async def _ask_voice(self, utterance: Utterance, position: int, message: ChatMessage | None) -> None:
        """Correct the estimate of what was heard, which stands in its place in the history already."""
        estimate = utterance.heard.at(position)
        try:
            with anyio.move_on_after(HEARD_LIMIT):
                await utterance.ask_heard(position)
        finally:
            heard = utterance.heard.at(position)
            if message is None:
                self._enter(heard, utterance, interrupted=True)
            elif not heard:
                self._has_words = False
                self._context.history.remove(message)
            elif heard != estimate:
                self._context.history.replace_text(message, heard)
            self._end_cut(utterance, position)

    def _end_cut(self, utterance: Utterance, position: int) -> None:
        self.unsettled, self._is_settled = 0.0, True
        self._note_heard(utterance, position)
        self._truncate(utterance, position)
        if self._on_settled is not None:
            self._on_settled.set()

    def _on_started(self, utterance: Utterance) -> None:
        assert utterance.started_at is not None
        self._record.played(utterance.started_at)
        self._context.session.inbox.post(PlayoutStarted(self._speech.id, utterance.started_at))

    def _on_finished(self, utterance: Utterance) -> None:
        self._enter(utterance.heard.at(utterance.total), utterance, interrupted=False)
        self._note_heard(utterance, utterance.total)
        if utterance.heard.has_unvoiced:
            self._truncate(utterance, utterance.total)
        self._on_played()
        now = self._context.clock.now()
        self._record.step_played(now)
        self._context.session.inbox.post(PlayoutFinished(self._speech.id, now, utterance.is_last))

    def _enter(self, heard: str, utterance: Utterance, *, interrupted: bool) -> ChatMessage | None:
        """Add the heard words to the history; return the message, or None without one."""
        if not heard or not self._in_history:
            return None
        self._has_words = True
        history, turn_id, ids = self._context.history, self._record.turn_id, utterance.items.ids
        return history.add_message("assistant", heard, interrupted=interrupted, turn_id=turn_id, said_as=ids)

    def _note_heard(self, utterance: Utterance, samples: int) -> None:
        heard, played = utterance.heard.at(samples), samples / utterance.rate
        self._speech.add_heard(heard, played)
        self._record.heard(heard, played=played, generated=utterance.total / utterance.rate)

    def _truncate(self, utterance: Utterance, samples: int) -> None:
        """Cut the items of an utterance that was not heard to its end, in the conversation that a realtime model
        keeps."""
        live, words, items = self._context.live, utterance.heard, utterance.items
        reached, heard = words.text[: words.reached(samples)].strip(), words.at(samples)
        is_text = not live.capabilities.generates_audio
        for item in items.cut_at(samples, reached, total=utterance.total, rate=utterance.rate, by_text=is_text):
            text = heard if len(items.ids) == 1 else item.text  # several items do not show which one was left out
            live.connection.truncate(item.item_id, item.seconds, text)
            if item.share and not words.text.strip() and self._in_history:
                self._context.history.add_cut(item.item_id, item.share, self._record.turn_id)


class BrokenAnswer:
    """Has a broken step of a speech requested again, at most once in a speech.

    It is for a model that keeps the conversation, whose connection is opened again with the history. If the caller has
    spoken since, the caller takes the floor, which ends the speech.

    Args:
        has_begun: Returns whether the step had begun: before that, the pipeline itself tries again.
    """

    def __init__(self, audio: ReplyAudio, failure: Failure, live: Live, has_begun: Callable[[], bool]) -> None:
        self._has_begun = has_begun
        self._audio = audio
        self._failure = failure
        self._live = live
        self.was_asked_again = False
        """Whether a step was requested again."""

    async def mended(self, step: Callable[[str], Awaitable[T]]) -> T:
        """Return the result of a model's step, run a second time if it broke off.

        Args:
            step: Runs it, with further instructions for the model.
        """
        try:
            return await step("")
        except (ProviderConnectionError, ExceptionGroup) as error:
            if not self._goes_on_after(first_error(error)):
                raise
        self.was_asked_again = True
        self._failure.forgive()
        return await step(GO_ON if await self._audio.break_off() else "")

    def _goes_on_after(self, error: Exception) -> bool:
        is_model = self._failure.component == "llm"  # and not the voice of a model that writes
        is_loss = is_model and isinstance(error, ProviderConnectionError) and error.retryable
        is_kept = self._live.capabilities.keeps_conversation
        return is_loss and is_kept and self._has_begun() and not self.was_asked_again
