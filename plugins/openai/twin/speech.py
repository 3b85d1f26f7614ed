"""Transcripts and speech in the formats that a request asks for.

Sources: the types `Transcription`, `TranscriptionVerbose` and `SpeechCreateParams` of openai 3.57
(openai/types/audio/); groq 1.7 (groq/types/audio/).
"""

from __future__ import annotations

import io
import struct
import wave
from typing import Any

from vivavoce.plugins.openai.twin.script import Heard, Spoken

UNKNOWN = 0xFFFFFFFF
"""The length in the header of a WAV file that is streamed: it is not known yet (ffmpeg and soundfile write this)."""


def wav_seconds(data: bytes) -> float:
    """Return the length of an upload.

    Raises:
        wave.Error, EOFError: It is not a WAV file.
    """
    with wave.open(io.BytesIO(data), "rb") as file:
        return file.getnframes() / file.getframerate()


def transcript_body(heard: Heard, seconds: float, form: dict[str, Any]) -> object:
    """Return the body of an answer: `json` has the text, `verbose_json` also segments, words if they are asked for."""
    asked = form.get("timestamp_granularities[]", [])
    if form.get("response_format", "json") != "verbose_json":
        return {"text": heard.text, "usage": {"type": "duration", "seconds": max(1, round(seconds))}}
    segment = {
        "id": 0,
        "seek": 0,
        "start": 0.0,
        "end": seconds,
        "text": f" {heard.text}",
        "tokens": [],
        "temperature": 0.0,
        "avg_logprob": heard.avg_logprob,
        "compression_ratio": heard.compression_ratio,
        "no_speech_prob": heard.no_speech_prob,
    }
    body = {
        "task": "transcribe",
        "language": form.get("language") or heard.language,
        "duration": seconds,
        "text": heard.text,
        "segments": [segment] if heard.text else [],
    }
    return body | ({"words": _words(heard, seconds)} if "word" in asked else {})


def _words(heard: Heard, seconds: float) -> list[dict[str, Any]]:
    texts = heard.text.split()
    each = seconds / max(1, len(texts))
    bare = [f" {text}" if heard.spaces else text.strip(".,;:!?") for text in texts]
    return [
        {"word": word, "start": round(at * each, 3), "end": round((at + 1) * each, 3)} for at, word in enumerate(bare)
    ]


def speech_parts(spoken: Spoken, asked: str) -> tuple[str, list[bytes]]:
    """Return the content type of speech, and its parts as they are streamed: a WAV header comes in two pieces."""
    half = len(spoken.pcm) // 2 | 1  # in the middle of a sample
    parts = [spoken.pcm[:half], spoken.pcm[half:]]
    if asked != "wav":
        return "audio/pcm", parts
    fields = (b"RIFF", UNKNOWN, b"WAVE", b"fmt ", 16, 1, 1, spoken.rate, 2 * spoken.rate, 2, 16)
    head = struct.pack("<4sI4s4sIHHIIHH", *fields) + struct.pack("<4sI4s", b"LIST", 4, b"INFO")
    head += struct.pack("<4sI", b"data", UNKNOWN)
    return "audio/wav", [head[:20], head[20:] + parts[0], parts[1]]
