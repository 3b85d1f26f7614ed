"""The messages of Azure's voices, sans-I/O: the context of a turn, documents in SSML, and the words that are spoken.

Source: azure-cognitiveservices-speech 1.53.0, captured on loopback; npm microsoft-cognitiveservices-speech-sdk 1.52.0,
`common.speech/SynthesisAdapterBase.js` (the fields of `input`, the stop);
https://learn.microsoft.com/azure/ai-services/speech-service/speech-synthesis-markup-voice (SSML).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any
from xml.sax.saxutils import escape, quoteattr

from vivavoce.pipelines.net.failures import Failures
from vivavoce.pipelines.tts.base import Word
from vivavoce.plugins.azure.options import TTSOptions
from vivavoce.plugins.azure.wire import SSML, TEXT, Frame, text_frame, ticks_of

STOP = json.dumps({"action": "stop"})

NO_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that no XML document may have."""

LONGEST_SKIP = 80
"""Characters of the text between two words that the service speaks in another form, or not at all."""


def synthesis_context(voice: str, language: str, options: TTSOptions, *, streams: bool) -> str:
    """Return the body of `synthesis.context`.

    Args:
        streams: Whether the text comes in pieces.
    """
    wanted = {"wordBoundaryEnabled": True, "sessionEndEnabled": True}
    others = ("punctuationBoundaryEnabled", "sentenceBoundaryEnabled", "bookmarkEnabled", "visemeEnabled")
    audio = {
        "outputFormat": f"raw-{options.sample_rate // 1000}khz-16bit-mono-pcm",
        "metadataOptions": {**wanted, **dict.fromkeys(others, False)},
    }
    synthesis: dict[str, Any] = {"audio": audio, "language": {"autoDetection": False}}
    if streams:
        synthesis["input"] = {
            "bidirectionalStreamingMode": True,
            "voiceName": voice,
            "language": language,
            **_controls(options),
            **({"style": options.style} if options.style else {}),
        }
    return json.dumps({"synthesis": synthesis})


def document(text: str, voice: str, language: str, options: TTSOptions) -> str:
    """Return a text as a document in SSML."""
    inner = escape(NO_XML.sub("", text))
    if controls := _controls(options):
        inner = f"<prosody{_attributes(controls)}>{inner}</prosody>"
    if options.style:
        degree = "" if options.style_degree is None else f"{options.style_degree:g}"
        express = {"style": options.style, "styledegree": degree, "role": options.role or ""}
        inner = f"<mstts:express-as{_attributes(express)}>{inner}</mstts:express-as>"
    if language:
        inner = f"<lang{_attributes({'xml:lang': language})}>{inner}</lang>"
    if options.lexicon:
        inner = f"<lexicon{_attributes({'uri': options.lexicon})}/>{inner}"
    names = {
        "version": "1.0",
        "xmlns": "http://www.w3.org/2001/10/synthesis",
        "xmlns:mstts": "http://www.w3.org/2001/mstts",
        "xml:lang": language or locale_of(voice) or "en-US",
    }
    return f"<speak{_attributes(names)}><voice{_attributes({'name': voice})}>{inner}</voice></speak>"


def locale_of(voice: str) -> str:
    """Return the locale in a voice's name such as "en-US-AvaMultilingualNeural"; "" if it has none."""
    found = re.match(r"[a-z]{2,3}(?:-[A-Za-z]+)?-[A-Z]{2}(?=-)", voice)
    return found[0] if found else ""


def ssml_frame(request: str, ssml: str) -> str:
    """Return the message with a document."""
    return text_frame("ssml", ssml, request=request, kind=SSML)


def piece_frame(request: str, text: str) -> str:
    """Return the message with more text."""
    return text_frame("text.piece", text, request=request, kind=TEXT)


def end_frame(request: str) -> str:
    """Return the message that no more text comes."""
    return text_frame("text.end", "", request=request, kind=TEXT)


class SpokenWords:
    """Finds the words that the service reports in the text, so that they have its spelling and punctuation."""

    def __init__(self) -> None:
        self._text = ""
        self._at = 0

    def add(self, text: str) -> None:
        """Take more text, which is about to be spoken."""
        self._text += NO_XML.sub("", text)

    def take(self, frame: Frame, failures: Failures) -> tuple[Word, ...]:
        """Return the words of an `audio.metadata`, at the times of the turn.

        Raises:
            ProviderProtocolError: It breaks the protocol.
        """
        rows = frame.fields(failures).get("Metadata")
        if not isinstance(rows, list):
            raise failures.malformed("a list as Metadata", type(rows).__name__)
        return tuple(word for row in rows if isinstance(row, dict) and (word := self._word(row, failures)) is not None)

    def _word(self, row: Mapping[str, Any], failures: Failures) -> Word | None:
        data = row.get("Data")
        if row.get("Type") != "WordBoundary" or not isinstance(data, dict):
            return None
        told = data.get("text")
        text = told.get("Text") if isinstance(told, dict) else None
        if not isinstance(text, str):
            raise failures.malformed("a text for each word", type(text).__name__)
        if isinstance(told, dict) and told.get("BoundaryType", "WordBoundary") != "WordBoundary":
            return None
        start = ticks_of(data, "Offset", failures)
        return Word(self._as_written(text), start, start + ticks_of(data, "Duration", failures))

    def _as_written(self, text: str) -> str:
        """Return the word with all that stands in the text between the word before it and the next space."""
        found = self._text.find(text, self._at, self._at + LONGEST_SKIP + len(text)) if text else -1
        if found < 0:
            return text
        end = found + len(text)
        while end < len(self._text) and not (self._text[end].isalnum() or self._text[end].isspace()):
            end += 1
        whole, self._at = self._text[self._at : end], end
        return " ".join(whole.split())


def _controls(options: TTSOptions) -> dict[str, str]:
    rate = None if options.rate is None else f"{options.rate:g}"
    given = {"rate": rate, "pitch": options.pitch, "volume": options.volume}
    return {name: value for name, value in given.items() if value is not None}


def _attributes(values: Mapping[str, str]) -> str:
    return "".join(f" {name}={quoteattr(NO_XML.sub('', value))}" for name, value in values.items() if value)
