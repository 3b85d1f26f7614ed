"""The form and the answer of `audio/transcriptions`, sans-I/O: what is asked, and which of the answer was said.

Sources: https://platform.openai.com/docs/api-reference/audio/createTranscription; the types of openai 3.57
(openai/types/audio/transcription_verbose.py) and groq 1.7 (groq/types/audio/transcription_create_params.py). The rules
for words that nobody said: https://github.com/openai/whisper, whisper/transcribe.py.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from vivavoce.pipelines.core.words import letters_of
from vivavoce.pipelines.stt.recognised import STTWord
from vivavoce.plugins.openai.wire import text_of

NO_SPEECH, LOW_LOGPROB = 0.6, -1.0
"""A segment with a greater probability of silence and a lesser one of its words is left out."""

LOOP = 2.4
"""A text that compresses better than this repeats itself: the model was in a loop."""

LANGUAGES = dict(
    pair.split(":")
    for pair in (
        "afrikaans:af albanian:sq amharic:am arabic:ar armenian:hy assamese:as azerbaijani:az bashkir:ba basque:eu "
        "belarusian:be bengali:bn bosnian:bs breton:br bulgarian:bg cantonese:yue catalan:ca chinese:zh croatian:hr "
        "czech:cs danish:da dutch:nl english:en estonian:et faroese:fo finnish:fi french:fr galician:gl georgian:ka "
        "german:de greek:el gujarati:gu hausa:ha hawaiian:haw hebrew:he hindi:hi hungarian:hu icelandic:is "
        "indonesian:id italian:it japanese:ja javanese:jw kannada:kn kazakh:kk khmer:km korean:ko lao:lo latin:la "
        "latvian:lv lingala:ln lithuanian:lt luxembourgish:lb macedonian:mk malagasy:mg malay:ms malayalam:ml "
        "maltese:mt maori:mi marathi:mr mongolian:mn myanmar:my nepali:ne norwegian:no nynorsk:nn occitan:oc pashto:ps "
        "persian:fa polish:pl portuguese:pt punjabi:pa romanian:ro russian:ru sanskrit:sa serbian:sr shona:sn "
        "sindhi:sd sinhala:si slovak:sk slovenian:sl somali:so spanish:es sundanese:su swahili:sw swedish:sv "
        "tagalog:tl tajik:tg tamil:ta tatar:tt telugu:te thai:th tibetan:bo turkish:tr turkmen:tk ukrainian:uk "
        "urdu:ur uzbek:uz vietnamese:vi welsh:cy yiddish:yi yoruba:yo"
    ).split()
)
"""Whisper's names of languages (whisper/tokenizer.py), which OpenAI and Groq report, and their codes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Transcription:
    """What all requests of a stream ask for.

    Args:
        language: "" for the one that the model detects.
        prompt: Helps to recognise words, such as names.
        has_segments: Whether the model reports how sure it is.
        has_words: Whether the times of words are asked for.
    """

    model: str
    language: str = ""
    prompt: str = field(default="", repr=False)
    has_segments: bool = False
    has_words: bool = False

    def fields(self) -> list[tuple[str, str]]:
        """Return the fields of the form beside the file."""
        asked = [("model", self.model), ("response_format", "verbose_json" if self.has_segments else "json")]
        asked += [("language", self.language)] if self.language else []
        asked += [("prompt", self.prompt)] if self.prompt else []
        kinds = ("word", "segment") if self.has_words else ()
        return [*asked, *(("timestamp_granularities[]", kind) for kind in kinds)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """The words of one upload."""

    text: str = field(default="", repr=False)
    words: tuple[STTWord, ...] = field(default=(), repr=False)
    language: str = ""


def prompt_of(prompt: str, terms: Iterable[str]) -> str:
    """Return a prompt with words to expect; they stand last, since a long prompt loses its beginning."""
    listed = ", ".join(terms)
    return " ".join(part for part in (prompt, f"{listed}." if listed else "") if part)


def heard_of(body: dict[str, Any], asked: Transcription, begin: float) -> Heard:
    """Return the words of an answer that were said; their times only if they are all those of its text.

    Args:
        begin: Of the upload, in seconds of the stream's audio.
    Raises:
        ProviderProtocolError: It is no transcript.
    """
    text = text_of(body.get("text"), "text").strip()
    language = asked.language or language_of(text_of(body.get("language"), "language"))
    words = [word for word in _dicts(body.get("words")) if _span(word) is not None]
    segments = _dicts(body.get("segments"))
    said = [segment for segment in segments if _is_said(segment)]
    if len(said) < len(segments):
        text = " ".join(text_of(segment.get("text"), "text").strip() for segment in said).strip()
        words = [word for word in words if any(_is_within(word, segment) for segment in said)]
    if asked.prompt and letters_of(text) == letters_of(asked.prompt):
        text = ""  # the model read its prompt
    texts = _spelt([text_of(word.get("word"), "word").strip() for word in words], text)
    timed = []
    for word, spelt in zip(words, texts, strict=False):
        start, end = _span(word) or (0.0, 0.0)
        timed.append(STTWord(text=spelt, start=begin + start, end=begin + end))
    return Heard(text=text, words=tuple(timed) if text else (), language=language)


def language_of(name: str) -> str:
    """Return the code of a language that a server may name."""
    return LANGUAGES.get(name.casefold(), name)


def wav_of(pcm: bytes, rate: int) -> bytes:
    """Return mono 16-bit PCM as a WAV file."""
    fields = (b"RIFF", 36 + len(pcm), b"WAVE", b"fmt ", 16, 1, 1, rate, 2 * rate, 2, 16, b"data", len(pcm))
    return struct.pack("<4sI4s4sIHHIIHH4sI", *fields) + pcm


def _is_said(segment: dict[str, Any]) -> bool:
    silence, sureness = _number(segment, "no_speech_prob", 0.0), _number(segment, "avg_logprob", 0.0)
    return not (silence > NO_SPEECH and sureness < LOW_LOGPROB) and _number(segment, "compression_ratio", 1.0) <= LOOP


def _is_within(word: dict[str, Any], segment: dict[str, Any]) -> bool:
    start, end = _span(word) or (0.0, 0.0)
    return _number(segment, "start", 0.0) <= (start + end) / 2 <= _number(segment, "end", 0.0)


def _spelt(words: Sequence[str], text: str) -> list[str]:
    """Return the words as in the text, with its punctuation; none if the text has others."""
    pieces = iter(text.split())
    found: list[str] = []
    for word in words:
        letters, taken = letters_of(word), list[str]()
        while letters_of("".join(taken)) != letters:
            piece = next(pieces, None)
            if piece is None or not letters.startswith(letters_of("".join(taken))):
                return []
            taken.append(piece)
        found.append(" ".join(taken) or word)
    return found if not letters_of("".join(pieces)) else []


def _dicts(value: object) -> list[dict[str, Any]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _span(word: dict[str, Any]) -> tuple[float, float] | None:
    start, end = _number(word, "start", -1.0), _number(word, "end", -1.0)
    return (start, max(start, end)) if start >= 0 and end >= 0 else None


def _number(holder: dict[str, Any], name: str, default: float) -> float:
    value = holder.get(name)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else default
