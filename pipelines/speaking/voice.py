"""Voice: any text to one stream of audio, by whole sentences or as the text comes, as the TTS allows.

The TTS receives the filtered text. Chunks carry the text and the words of the original, so that the heard text consists
of words of the history.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import aclosing
from functools import partial

from vivavoce.pipelines.core.boundary import guarded
from vivavoce.pipelines.core.clock import Clock
from vivavoce.pipelines.core.retry import RetryOptions, retry_stream
from vivavoce.pipelines.events import PipelineEvent, PipelineFailed
from vivavoce.pipelines.media.frame import AudioFrame
from vivavoce.pipelines.speaking.spoken_text import SpokenText
from vivavoce.pipelines.speech import SpeechOptions
from vivavoce.pipelines.tts.base import AUDIO_CHUNKS, TTS, AudioChunk, Word
from vivavoce.pipelines.tts.live_text import PAUSE, LiveText
from vivavoce.pipelines.tts.sentences import SentenceCutter, SentenceOptions, sentences
from vivavoce.pipelines.tts.text_filters import FilterChain

_WHOLE_WORDS = re.compile(r".*[\s\u2e80-\ud7ff\uf900-\ufaff\uff00-\uffef]", re.DOTALL)
"""Up to white space, or a sign of a script without spaces."""

NO_RETRY = RetryOptions(waits=())
"""For speech that follows speech which was heard already."""


class Voice:
    """Speaks with a TTS.

    Args:
        clock: Dates the request of each synthesis.
        emit: Receives the error of a text filter, once a speech; the speech continues without the filter.
    """

    def __init__(self, tts: TTS, options: SpeechOptions, clock: Clock, emit: Callable[[PipelineEvent], None]) -> None:
        self._tts = tts
        self._options = options
        self._clock = clock
        self._streams_text, self._rate = tts.capabilities.streams_text, tts.capabilities.sample_rate
        self._emit = emit
        self._filters = FilterChain(options.text_filters, self._report) if options.text_filters else None

    def speak(self, text: str | AsyncIterator[str]) -> AsyncGenerator[AudioChunk, None]:
        """Yield the speech; word times count from the start of all of it.

        The first chunk of each sentence (of all the text, for a TTS that streams text) carries `requested_at`, and the
        first chunk of a sentence its text. Texts and words are the original's.

        Raises:
            ProviderError: While iterating.
        """
        if self._filters is not None:
            self._filters.begin()
        return self._speak_stream(text) if self._streams_text else self._speak_sentences(text)

    async def _speak_sentences(self, text: str | AsyncIterator[str]) -> AsyncGenerator[AudioChunk, None]:
        samples, rate = 0, self._rate
        retries = self._options.tts_retry
        async with aclosing(self._said_sentences(text)) as parts:
            async for sentence, said in parts:
                words_of = _same
                is_changed = said != sentence
                if is_changed:
                    spoken = SpokenText()
                    spoken.add(sentence, said)
                    words_of = spoken.words
                start, is_first, requested_at = samples / rate, True, self._clock.now()
                stream = retry_stream(self._guarded(partial(self._tts.synthesize, said)), retries)
                retries = NO_RETRY
                async with aclosing(stream) as chunks:
                    async for chunk in chunks:
                        samples += chunk.frame.samples
                        words = words_of(chunk.words) if chunk.words else ()
                        if is_first:
                            is_first = False
                            changed = said if is_changed else ""
                            yield AudioChunk(chunk.frame, _later(words, start), sentence, requested_at, changed)
                        elif chunk.words or chunk.text:
                            yield AudioChunk(chunk.frame, _later(words, start), "" if is_changed else chunk.text)
                        else:
                            yield chunk
                if not isinstance(text, str):  # the next sentence may be long in coming
                    yield AudioChunk(AudioFrame(b"", rate), is_end=True)

    async def _said_sentences(self, text: str | AsyncIterator[str]) -> AsyncGenerator[tuple[str, str], None]:
        """Yield each sentence and its spoken form."""
        filters, options = self._filters, self._options.sentences
        unsaid: list[str] = []
        is_silent = True
        async with aclosing(sentences(text, options, keeps_code=filters is not None)) as parts:
            async for sentence in parts:
                said = sentence if filters is None else filters(sentence)
                if filters is None or _has_words(said):
                    is_silent = False
                    unsaid.clear()
                    yield sentence, said
                elif is_silent and _has_words(sentence):
                    unsaid.append(sentence)
        for sentence in unsaid:  # the filters left no words of the whole text
            yield sentence, sentence

    async def _speak_stream(self, text: str | AsyncIterator[str]) -> AsyncGenerator[AudioChunk, None]:
        pieces = _once(text) if isinstance(text, str) else text
        spoken: SpokenText | None = None
        if self._filters is not None:
            spoken = SpokenText()
            pieces = _Filtered(pieces, self._filters, self._options.sentences, spoken)
        elif isinstance(pieces, LiveText):
            pieces = _Settled(pieces, self._options.sentences)
        source = _Source(pieces, self._clock)
        is_first = True
        stream = self._guarded(lambda: self._tts.stream(source.again()))
        async with aclosing(retry_stream(stream, self._options.tts_retry)) as chunks:
            async for chunk in chunks:
                if spoken is not None and (chunk.words or chunk.text):
                    part = spoken.part(chunk.text) if chunk.text else ""
                    chunk = AudioChunk(chunk.frame, spoken.words(chunk.words), part, chunk.requested_at)
                if is_first:
                    is_first = False
                    source.forget()
                    yield AudioChunk(chunk.frame, chunk.words, chunk.text, source.began_at)
                else:
                    yield chunk

    def _report(self, error: Exception) -> None:
        self._emit(PipelineFailed(error, True, "text_filter"))

    def _guarded(self, make: Callable[[], AsyncIterator[AudioChunk]]) -> Callable[[], AsyncGenerator[AudioChunk, None]]:
        return partial(guarded, make, AUDIO_CHUNKS, self._tts.provider)


class _Settled(AsyncIterator[str]):
    """Text, and white space behind a sentence that looks finished when nothing follows for `PAUSE` seconds.

    Like all text that a voice gets here it survives a cancelled `__anext__`: the next one goes on behind the last
    piece.
    """

    def __init__(self, text: LiveText, options: SentenceOptions) -> None:
        self._text = text
        self._cutter = SentenceCutter(options)
        self._ends_open = False

    async def __anext__(self) -> str:
        if self._cutter.looks_finished and not await self._text.follows(PAUSE):
            settled = list(self._cutter.settle())
            if settled and self._ends_open:
                self._ends_open = False
                return " "
        piece = await anext(self._text)
        self._ends_open = not piece[-1:].isspace()
        for _ in self._cutter.push(piece):
            pass  # only its pending text is needed
        return piece


class _Filtered(AsyncIterator[str]):
    """The spoken form of a text: words that no filter changes at once, else with the end of their sentence."""

    def __init__(
        self, text: AsyncIterator[str], filters: FilterChain, options: SentenceOptions, spoken: SpokenText
    ) -> None:
        self._text = text
        self._live = text if isinstance(text, LiveText) else None
        self._stream = _FilteredStream(filters, options, spoken)
        self._said: deque[str] = deque()
        self._is_over = False

    async def __anext__(self) -> str:
        while not self._said:
            if self._is_over:
                raise StopAsyncIteration
            if self._live is not None and self._stream.looks_finished and not await self._live.follows(PAUSE):
                self._said.extend(self._stream.settle())
                if self._said:
                    break
            try:
                piece = await anext(self._text)
            except StopAsyncIteration:
                self._is_over = True
                self._said.extend(self._stream.finish())
            else:
                self._said.extend(self._stream.push(piece))
        return self._said.popleft()


class _FilteredStream:
    """Filters a stream of text, and notes written and spoken text in `spoken`."""

    def __init__(self, filters: FilterChain, options: SentenceOptions, spoken: SpokenText) -> None:
        self._filters = filters
        self._cutter = SentenceCutter(options, keeps_code=True)
        self._spoken = spoken
        self._sent = ""
        """The part of the open sentence that was yielded already, as it is written."""
        self._unsaid: list[str] = []
        self._is_silent = True

    def push(self, text: str) -> Iterator[str]:
        """Take more text and yield the text that can be spoken now."""
        for sentence in self._cutter.push(text):
            yield from self._rest(sentence)
        words = self._cutter.pending.lstrip()
        whole = _WHOLE_WORDS.match(words)  # the last word may go on
        head = whole[0] if whole else ""
        if len(head) > len(self._sent) and self._filters.leaves(head):
            sent, self._sent = len(self._sent), head
            yield from self._say(head[sent:], head[sent:])

    @property
    def looks_finished(self) -> bool:
        """Whether the open sentence may count as finished if nothing follows."""
        return self._cutter.looks_finished

    def settle(self) -> Iterator[str]:
        """Nothing follows for now: yield the rest of a sentence that looks finished."""
        for sentence in self._cutter.settle():
            yield from self._rest(sentence)

    def finish(self) -> Iterator[str]:
        """Yield the rest."""
        last = list(self._cutter.finish())
        for number, sentence in enumerate(last, 1):
            yield from self._rest(sentence, " " if number < len(last) else "")
        unsaid, self._unsaid = self._unsaid if self._is_silent else [], []
        for sentence in filter(_has_words, unsaid):  # the filters left no words of the whole text
            yield from self._say(sentence, sentence + " ")

    def _rest(self, sentence: str, gap: str = " ") -> Iterator[str]:
        sent = self._sent
        if len(sent) >= len(sentence):  # a long one, cut before text that was yielded already
            self._sent = sent[len(sentence) :].lstrip()
            return
        self._sent = ""
        said = self._filters(sentence)
        said = said[len(sent) :] if said.startswith(sent) else self._filters(sentence[len(sent) :])
        yield from self._say(sentence[len(sent) :], said + gap)

    def _say(self, original: str, said: str) -> Iterator[str]:
        if not _has_words(said) and (self._is_silent or not said.strip()):
            self._unsaid.append(original)
            return
        self._is_silent = False
        for text in self._unsaid:
            self._spoken.add(text + " ", "")
        self._unsaid.clear()
        self._spoken.add(original + " " if said.endswith(" ") else original, said)
        yield said


class _Source:
    """Text that can be read again from its start until `forget()`, for a second try."""

    def __init__(self, text: AsyncIterator[str], clock: Clock) -> None:
        self._text = text
        self._clock = clock
        self._pieces: list[str] = []
        self._is_kept = True
        self.began_at: float | None = None

    def forget(self) -> None:
        self._is_kept = False
        self._pieces = []

    def again(self) -> _Again:
        return _Again(self)

    async def read(self, number: int) -> str:
        """Return piece `number`, the next one if it is not kept."""
        if number < len(self._pieces):
            return self._pieces[number]
        piece = await anext(self._text)
        if self._is_kept:
            self._pieces.append(piece)
            if self.began_at is None:
                self.began_at = self._clock.now()
        return piece


class _Again(AsyncIterator[str]):
    """A source's text from its start."""

    def __init__(self, source: _Source) -> None:
        self._source = source
        self._number = 0

    async def __anext__(self) -> str:
        piece = await self._source.read(self._number)
        self._number += 1
        return piece


async def _once(text: str) -> AsyncGenerator[str, None]:
    yield text


def _same(words: tuple[Word, ...]) -> tuple[Word, ...]:
    return words


def _has_words(text: str) -> bool:
    for letter in text:  # no generator: this runs for each answer
        if letter.isalnum():
            return True
    return False


def _later(words: tuple[Word, ...], seconds: float) -> tuple[Word, ...]:
    return tuple(Word(word.text, word.start + seconds, word.end + seconds) for word in words) if seconds else words
