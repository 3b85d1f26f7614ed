"""The voices of the caller's side: who said which words of a message, and how a model sees it."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import replace
from difflib import SequenceMatcher

from vivavoce.pipelines.core.words import letters_of, pieces
from vivavoce.pipelines.events import UserFinal, UserInterim
from vivavoce.pipelines.llm.chat_context import ChatContext, ChatItem, ChatMessage
from vivavoce.pipelines.llm.chat_items import Voice

MOST_WORDS = 2000
"""Words that are kept with their speakers: those of a long turn and of its late finals."""
NEARBY = 20
"""Words before those of a text among which its words are looked for too."""

Said = tuple[str, str]
"""The letters of a word, and its speaker; no speaker for a word that was typed."""


class HeardVoices:
    """Knows the speakers of the newest words, and finds them again in the text of a turn.

    The turn machine joins, corrects and divides transcripts as texts. So the speakers of a text are found by its words:
    each has the speaker of the newest words that it matches, a changed word that of the word before it.
    """

    def __init__(self) -> None:
        self._settled: deque[Said] = deque(maxlen=MOST_WORDS)
        self._shown: list[Said] = []
        self._are_told_apart = False

    def heard(self, event: UserFinal | UserInterim) -> None:
        """Take a transcript. Nothing is kept until one names a speaker."""
        said = [
            (letters_of(word), one.speaker or event.speaker)
            for one in event.words or (event,)
            for word in _words(one.text)
        ]
        self._are_told_apart = self._are_told_apart or any(speaker for _, speaker in said)
        if not self._are_told_apart:
            return
        if isinstance(event, UserFinal):
            self._settled += said
            self._shown = []
        else:
            self._shown = said

    def typed(self, text: str) -> None:
        """Take words that were typed: no voice has said them."""
        if self._are_told_apart:
            self._settled += [(letters_of(word), "") for word in _words(text)]

    def of(self, message: ChatMessage, text: str, *, is_edited: bool) -> tuple[Voice, ...]:
        """Return the voices of the text that takes the place of a message's.

        Args:
            is_edited: Whether it is an edit of the message, and not what was heard.
        """
        if message.role != "user":
            return ()
        if not is_edited:
            return self.in_text(text)
        said = [(letters_of(word), speaker) for speaker, words in message.by_voice() for word in _words(words)]
        return _found(text, said)

    def in_text(self, text: str) -> tuple[Voice, ...]:
        """Return the voices of a text that was heard just now."""
        if not self._are_told_apart:
            return ()
        said = [*self._settled, *self._shown]
        return _found(text, said[-(2 * len(_words(text)) + NEARBY) :])


class LabelledVoices:
    """Shows a model who said what, as soon as two voices have spoken in the conversation: each voice in a line of its
    own, behind `Speaker A:`."""

    def __init__(self) -> None:
        self._labelled: dict[str, tuple[ChatMessage, ChatMessage]] = {}
        """The messages with labels, by id: as they are in the history, and as they are shown."""

    def of(self, context: ChatContext) -> ChatContext:
        """Return the conversation with labels, or itself where one voice alone has spoken."""
        if len({speaker for message in context.messages("user") for speaker in message.speakers}) < 2:
            return context
        before, self._labelled = self._labelled, {}
        return ChatContext([self._shown(item, before) for item in context])

    def _shown(self, item: ChatItem, before: dict[str, tuple[ChatMessage, ChatMessage]]) -> ChatItem:
        if not isinstance(item, ChatMessage) or not item.speakers or item.speaker:
            return item
        known = before.get(item.id)
        if known is None or known[0] is not item:  # the same item is shown as the same object
            lines = (f"Speaker {speaker}: {words}" if speaker else words for speaker, words in item.by_voice())
            known = (item, replace(item, content="\n".join(lines), voices=()))
        self._labelled[item.id] = known
        return known[1]


def _words(text: str) -> list[str]:
    return [text[start:end] for start, end in pieces(text)]


def _found(text: str, said: Sequence[Said]) -> tuple[Voice, ...]:
    """Return the voices of a text by the words that were said; the newest of equal words count."""
    spans = pieces(text)
    wanted = [letters_of(text[start:end]) for start, end in reversed(spans)]
    heard = [letters for letters, _ in reversed(said)]
    speakers: dict[int, str] = {}
    for block in SequenceMatcher(None, wanted, heard, autojunk=False).get_matching_blocks():
        for step in range(block.size):
            speakers[len(spans) - 1 - block.a - step] = said[len(said) - 1 - block.b - step][1]
    if not any(speakers.values()):
        return ()
    return tuple(_changes(spans, speakers))


def _changes(spans: Sequence[tuple[int, int]], speakers: dict[int, str]) -> Iterable[Voice]:
    present = speakers[min(speakers)]
    yield Voice(present)
    for at, (start, _) in enumerate(spans):
        speaker = speakers.get(at, present)
        if speaker != present:
            present = speaker
            yield Voice(present, start)
