"""ListenTurns: the recogniser of one connection, sans-I/O: the client's frames in, the service's frames out.

Fields of the messages: azure-cognitiveservices-speech 1.53.0, captured on loopback; npm
microsoft-cognitiveservices-speech-sdk 1.52.0, `common.speech/ServiceMessages/{DetailedSpeechPhrase,SpeechHypothesis,
SpeechDetected}.d.ts`. Offsets count from the turn's first audio, in units of 100 ns: `RequestSession.js`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from vivavoce.pipelines.testing.ear import Ear, HeardWord, Lexicon
from vivavoce.plugins.azure.models import LOCALES
from vivavoce.plugins.azure.twin.answers import Answer, Close, answer
from vivavoce.plugins.azure.wire import TICKS, Frame

RATE = 16_000
RIFF_HEAD = 44
"""Bytes."""

SEGMENTATION = 0.5
"""Seconds of silence that end a phrase unless the client names others."""


class ListenTurns:
    """Hears one turn after the other.

    Args:
        query: Of the handshake: the older path has the settings there.
    """

    def __init__(self, query: dict[str, str], lexicon: Lexicon) -> None:
        self._query = query
        self._lexicon = lexicon
        self._context: dict[str, Any] = {}
        self._request = ""
        self._context_request = ""
        self._ear: Ear | None = None
        self._words: list[HeardWord] = []
        self._phrases = 0
        self.turns: list[str] = []
        """The request id of each turn with audio."""
        self.key_terms: list[str] = []
        """Of the newest `speech.context`."""

    def take(self, frame: Frame) -> Iterator[Answer]:
        """Take a frame of the client."""
        if frame.path == "speech.context":
            yield from self._take_context(frame)
        elif frame.path == "audio":
            yield from self._take_audio(frame)

    def _take_context(self, frame: Frame) -> Iterator[Answer]:
        self._context, self._context_request = json.loads(frame.body), frame.request
        groups = self._context.get("dgi", {}).get("Groups", [])
        self.key_terms = [item["Text"] for group in groups for item in group.get("Items", [])]
        for language in self._languages():
            if language.casefold() not in {one.casefold() for one in LOCALES}:
                yield Close(1007, f"Unsupported recognition language {language}.")

    def _take_audio(self, frame: Frame) -> Iterator[Answer]:
        assert isinstance(frame.body, bytes)
        if frame.request != self._request:
            if frame.request != self._context_request:
                yield Close(1007, "Audio needs a speech.context with its request id.")
                return
            self._request, self._ear = frame.request, Ear(self._lexicon, RATE, self._segmentation())
            self._words = []
            self.turns.append(frame.request)
            yield answer("turn.start", frame.request, {"context": {"serviceTag": frame.request}})
        assert self._ear is not None
        if not frame.body:
            yield from self._end()
            return
        pcm = frame.body[RIFF_HEAD:] if frame.body.startswith(b"RIFF") else frame.body
        for _ in self._ear.push(pcm):
            yield from self._hear(self._ear)

    def _hear(self, ear: Ear) -> Iterator[Answer]:
        if ear.words:
            if not self._words:
                yield self._answer("speech.startDetected", {"Offset": _ticks(ear.words[0].start)})
            self._words += ear.words
            start, end = self._words[0].start, self._words[-1].end
            text = " ".join(_lexical(word) for word in self._words)
            heard = {"Text": text, "Offset": _ticks(start), "Duration": _ticks(end - start), "Channel": 0}
            yield self._answer("speech.hypothesis", heard | self._about(self._words))
        elif self._words and ear.quiet >= self._segmentation() - 1e-6:
            yield self._phrase()

    def _end(self) -> Iterator[Answer]:
        """End the turn, since the audio has ended."""
        ear = self._ear
        assert ear is not None
        self._words += ear.cut()
        if self._words:
            yield self._phrase()
        end = _ticks(ear.position)
        yield self._answer("speech.endDetected", {"Offset": end})
        yield self._answer("speech.phrase", {"RecognitionStatus": "EndOfDictation", "Offset": end, "Duration": 0})
        yield self._answer("turn.end", None)
        self._request = ""

    def _phrase(self) -> Answer:
        words, self._words = self._words, []
        start, end = words[0].start, words[-1].end
        text = " ".join(word.said.text for word in words)
        lexical = [_lexical(word) for word in words]
        best: dict[str, Any] = {
            "Confidence": min(word.said.confidence for word in words),
            "Lexical": " ".join(lexical),
            "ITN": " ".join(lexical),
            "MaskedITN": " ".join(lexical),
            "Display": text,
        }
        options = self._context.get("phraseOutput", {}).get("detailed", {}).get("options", [])
        if "WordTimings" in options:
            best["Words"] = [
                {"Word": name, "Offset": _ticks(word.start), "Duration": _ticks(word.end - word.start)}
                for name, word in zip(lexical, words, strict=True)
            ]
        if "WordConfidence" in options:
            for told, word in zip(best["Words"], words, strict=True):
                told["Confidence"] = word.said.confidence
        self._phrases += 1
        told = {
            "Id": str(self._phrases),
            "RecognitionStatus": "Success",
            "DisplayText": text,
            "Offset": _ticks(start),
            "Duration": _ticks(end - start),
            "Channel": 0,
            "NBest": [best],
        }
        return self._answer("speech.phrase", told | self._about(words))

    def _about(self, words: list[HeardWord]) -> dict[str, Any]:
        """Return the speaker and the language, as far as they were asked for."""
        told: dict[str, Any] = {}
        if self._context.get("phraseDetection", {}).get("speakerDiarization"):
            told["SpeakerId"] = f"Guest-{words[-1].said.speaker + 1}"
        if "languageId" in self._context:
            spoken = words[-1].said.language
            found = [one for one in self._languages() if one.partition("-")[0] == spoken]
            told["PrimaryLanguage"] = {"Language": found[0] if found else self._languages()[0], "Confidence": "High"}
        return told

    def _languages(self) -> list[str]:
        several = self._context.get("languageId", {}).get("languages")
        named = self._context.get("phraseDetection", {}).get("language") or self._query.get("language", "")
        return list(several) if several else [named]

    def _segmentation(self) -> float:
        mode = self._context.get("phraseDetection", {}).get("CONVERSATION", {}).get("segmentation", {})
        return float(mode.get("segmentationSilenceTimeoutMs", SEGMENTATION * 1000)) / 1000

    def _answer(self, path: str, body: dict[str, Any] | None) -> Answer:
        return answer(path, self._request, body)


def _ticks(seconds: float) -> int:
    return round(seconds * TICKS)


def _lexical(word: HeardWord) -> str:
    return word.said.text.strip(".,;:!?").casefold()
