"""Voice: any text to one stream of audio, by whole sentences or as the text comes, as the TTS allows.

The TTS receives the filtered text. Chunks carry the text and the words of the original, so that the heard text consists
of words of the history.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Iterator
from contextlib import aclosing
from dataclasses import replace
from functools import partial

import anyio

from vivavoce.pipelines.core.boundary import guarded
from vivavoce.pipelines.core.clock import Clock
from vivavoce.pipelines.core.errors import UnvoicedError
from vivavoce.pipelines.core.retry import RetryOptions, report_retry, retry_stream
from vivavoce.pipelines.events import PipelineEvent, PipelineFailed
from vivavoce.pipelines.media.frame import AudioFrame
from vivavoce.pipelines.speaking.spoken_text import SpokenText
from vivavoce.pipelines.speaking.voicing import Voicing
from vivavoce.pipelines.speech import SpeechOptions
from vivavoce.pipelines.tts.at_rate import at_rate
from vivavoce.pipelines.tts.base import AUDIO_CHUNKS, TTS, AudioChunk, Heard, Word
from vivavoce.pipelines.tts.live_text import PAUSE, LiveText
from vivavoce.pipelines.tts.sentences import SentenceCutter, SentenceOptions, sentences
from vivavoce.pipelines.tts.text_filters import FilterChain

_WHOLE_WORDS = re.compile(r".*[\s\u2e80-\ud7ff\uf900-\ufaff\uff00-\uffef]", re.DOTALL)
"""Up to white space, or a sign of a script without spaces."""

NO_RETRY = RetryOptions(waits=())
"""For speech that follows speech which was heard already."""

TAIL = 0.1
"""Seconds of audio behind a voice's last word that are no speech; longer audio is of words whose times did not come."""


class Voice:
    """Speaks with a TTS, which it has connected ahead of the first speech.

    Args:
        clock: Dates the request of each synthesis.
        emit: Receives the error of a text filter, once a speech; the speech continues without the filter.
        rate: Hz of the audio; the TTS's own unless given.
    """

    def __init__(
        self,
        tts: TTS,
        options: SpeechOptions,
        clock: Clock,
        emit: Callable[[PipelineEvent], None],
        *,
        rate: int | None = None,
    ) -> None:
        self._tts = tts
        self._options = options
        self._clock = clock
        self._streams_text, self._rate = tts.capabilities.streams_text, tts.capabilities.sample_rate
        self._output_rate = rate or self._rate
        self._emit = emit
        self._filters = FilterChain(options.text_filters, self._report) if options.text_filters else None
        tts.warm()

    def speak(self, text: str | AsyncIterator[str]) -> AsyncGenerator[AudioChunk, None]:
        """Yield the speech; word times count from the start of all of it.

        The first chunk of each sentence (of all the text, for a TTS that streams text) carries `requested_at`, and the
        first chunk of a sentence its text. Texts and words are the original's. Text with a letter or a digit of which
        the TTS yields no audio is asked for once more, if `tts_retry` allows that, and then comes as `unvoiced`. A
        sentence that a stream leaves out in the middle is not asked for again: the next one has sounded. Audio behind
        the last word that came with its time is of the text behind that word: in doubt a sentence is spoken.

        Raises:
            ProviderError: While iterating.
        """
        if self._filters is not None:
            self._filters.begin()
        chunks = self._speak_stream(text) if self._streams_text else self._speak_sentences(text)
        return chunks if self._output_rate == self._rate else at_rate(chunks, self._output_rate)

    async def _speak_sentences(self, text: str | AsyncIterator[str]) -> AsyncGenerator[AudioChunk, None]:
        samples, rate = 0, self._rate
        async with aclosing(self._said_sentences(text)) as parts:
            async for sentence, said in parts:
                words_of = _same
                is_changed = said != sentence
                if is_changed:
                    spoken = SpokenText()
                    spoken.add(sentence, said)
                    words_of = spoken.words
                start, requested_at, early, attempt = samples / rate, self._clock.now(), tuple[Word, ...](), 0
                is_first, has_words = True, _has_words(said)
                while is_first and await self._may_ask(sentence, has_words, attempt):
                    attempt += 1
                    retries = NO_RETRY if samples else self._options.tts_retry
                    stream = retry_stream(self._guarded(partial(self._tts.synthesize, said)), retries, _has_audio)
                    async with aclosing(stream) as chunks:
                        async for chunk in chunks:
                            if chunk.is_end or (is_first and not chunk.frame.data):
                                early += chunk.words
                                continue
                            samples += chunk.frame.samples
                            words = words_of((*early, *chunk.words)) if chunk.words or early else ()
                            if is_first:
                                is_first, early = False, ()
                                changed = said if is_changed else ""
                                yield AudioChunk(chunk.frame, _later(words, start), sentence, requested_at, changed)
                            elif chunk.words or chunk.text:
                                yield AudioChunk(chunk.frame, _later(words, start), "" if is_changed else chunk.text)
                            else:
                                yield chunk
                    early = ()
                if is_first and has_words:
                    yield self._unvoiced(sentence, attempt)
                elif not isinstance(text, str):  # the next sentence may be long in coming
                    yield AudioChunk(AudioFrame(b"", rate), is_end=True)

    async def _may_ask(self, text: str, has_words: bool, attempt: int) -> bool:
        """Return whether to ask for audio of `text` (again), and wait before a second time."""
        if not attempt:
            return True
        waits = self._options.tts_retry.waits
        if attempt > 1 or not has_words or not waits:
            return False
        report_retry(UnvoicedError(text, provider=self._tts.provider), attempt)
        await anyio.sleep(waits[0])
        return True

    def _unvoiced(self, text: str, tries: int) -> AudioChunk:
        """Return the sign that `text` was not voiced in so many tries."""
        error = UnvoicedError(text, provider=self._tts.provider, tries=tries)
        return AudioChunk(AudioFrame(b"", self._rate), unvoiced=error)

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
        voicing, is_first, samples, attempt, rest = source.voicing, True, 0, 0, ""
        words_until: float | None = None
        while await self._may_ask(rest, bool(rest), attempt):
            attempt += 1
            start, early = samples / self._rate, tuple[Word, ...]()
            make = partial(self._tts.stream, _once(rest)) if rest else lambda: self._tts.stream(source.again())
            retries = NO_RETRY if rest else self._options.tts_retry
            async with aclosing(retry_stream(self._guarded(make), retries, _has_audio)) as chunks:
                async for chunk in chunks:
                    if chunk.words:
                        words_until = start + chunk.words[-1].end
                    if not samples and not chunk.frame.data:
                        early += chunk.words
                        continue
                    samples += chunk.frame.samples
                    if chunk.heard is not None:
                        chunk = replace(chunk, heard=None if start else _written_heard(chunk.heard, spoken))
                    if chunk.words or chunk.text or early:
                        words, early = _later((*early, *chunk.words), start), ()
                        part = spoken.part(chunk.text) if spoken is not None and chunk.text else chunk.text
                        parts = list(self._spoken_parts(AudioChunk(chunk.frame, words, part), voicing, spoken))
                    else:
                        parts = [chunk]
                    for chunk in parts:
                        if is_first:
                            is_first = False
                            source.forget()
                            chunk = replace(chunk, requested_at=source.began_at)
                        yield chunk
            left = self._left_out(voicing, samples / self._rate, words_until)
            rest = voicing.text[left[0][0] : left[-1][1]] if left else ""
        for place in left:
            yield self._unvoiced(_written(place, voicing, spoken), attempt)

    def _spoken_parts(self, chunk: AudioChunk, voicing: Voicing, spoken: SpokenText | None) -> Iterator[AudioChunk]:
        """Yield the chunk, cut where the voice leaves out sentences."""
        words: list[Word] = []
        for word in chunk.words:
            for place in voicing.take(word):
                if words:
                    yield replace(chunk, words=_written_words(words, spoken))
                    chunk, words = AudioChunk(AudioFrame(b"", self._rate)), []
                yield self._unvoiced(_written(place, voicing, spoken), 1)  # the next sentence has sounded
            words.append(word)
        yield replace(chunk, words=_written_words(words, spoken))

    def _left_out(self, voicing: Voicing, seconds: float, words_until: float | None) -> list[tuple[int, int]]:
        """Return where the texts are that the voice has left out at the end of a stream.

        Args:
            seconds: Of audio so far.
            words_until: When the last word ends in it; None if no word has come, so that none tells what was spoken.
        """
        if not seconds:
            return [(0, len(voicing.text))] if _has_words(voicing.text) else []
        return [] if words_until is None or seconds > words_until + TAIL else voicing.rest()

    def _report(self, error: Exception) -> None:
        self._emit(PipelineFailed(error, True, "text_filter"))

    def _guarded(self, make: Callable[[], AsyncIterator[AudioChunk]]) -> Callable[[], AsyncGenerator[AudioChunk, None]]:
        return partial(guarded, make, AUDIO_CHUNKS, self._tts.provider)


def _written_heard(heard: Heard, spoken: SpokenText | None) -> Heard:
    """Return the function of a voice that tells what was heard, in the words of the written text."""

    async def written(seconds: float) -> str | None:
        said = await heard(seconds)
        return spoken.part(said) if said and spoken is not None else said

    return written


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
        has_gap = said.endswith(" ") and not original[-1:].isspace()
        self._spoken.add(original + " " if has_gap else original, said)
        yield said


class _Source:
    """Text that can be read again from its start until `forget()`, for a second try."""

    def __init__(self, text: AsyncIterator[str], clock: Clock) -> None:
        self._text = text
        self._clock = clock
        self.voicing = Voicing()
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
        self.voicing.add_text(piece)
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


def _has_audio(chunk: AudioChunk) -> bool:
    return bool(chunk.frame.data)


def _written(place: tuple[int, int], voicing: Voicing, spoken: SpokenText | None) -> str:
    """Return the text that is written for that place in the spoken text."""
    return voicing.text[slice(*place)] if spoken is None else spoken.written(*place)


def _written_words(words: Iterable[Word], spoken: SpokenText | None) -> tuple[Word, ...]:
    return tuple(words) if spoken is None else spoken.words(tuple(words))


def _same(words: tuple[Word, ...]) -> tuple[Word, ...]:
    return words


def _has_words(text: str) -> bool:
    for letter in text:  # no generator: this runs for each answer
        if letter.isalnum():
            return True
    return False


def _later(words: tuple[Word, ...], seconds: float) -> tuple[Word, ...]:
    return tuple(Word(word.text, word.start + seconds, word.end + seconds) for word in words) if seconds else words
