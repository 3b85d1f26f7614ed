"""Settings: the session object, its defaults, and the fields that `session.update` may change."""

from __future__ import annotations

import copy
from typing import Any

from vivavoce.pipelines.core.ids import new_id
from vivavoce.pipelines.testing.realtime_server.refusal import Refusal, needed
from vivavoce.pipelines.testing.realtime_server.script import RATE

FIELDS = frozenset(
    {
        "type", "model", "instructions", "output_modalities", "audio", "tools", "tool_choice", "max_output_tokens",
        "truncation", "tracing", "include", "prompt", "reasoning", "parallel_tool_calls",
    }
)  # fmt: skip
"""The GA protocol's; those of the beta (`modalities`, `voice`, `turn_detection` at the top …) are refused."""

SERVER_VAD: dict[str, Any] = {
    "type": "server_vad",
    "threshold": 0.5,
    "prefix_padding_ms": 300,
    "silence_duration_ms": 500,
    "idle_timeout_ms": None,
    "create_response": True,
    "interrupt_response": True,
}
SEMANTIC_VAD: dict[str, Any] = {
    "type": "semantic_vad",
    "eagerness": "auto",
    "create_response": True,
    "interrupt_response": True,
}
TURN_DETECTIONS = {"server_vad": SERVER_VAD, "semantic_vad": SEMANTIC_VAD}

PCM = {"type": "audio/pcm", "rate": RATE}


class Settings:
    """One connection's session object.

    Args:
        is_transcription: Whether the client has connected with `intent=transcription`.
    """

    def __init__(self, model: str, *, is_transcription: bool) -> None:
        self.session: dict[str, Any] = {
            "object": "realtime.session",
            "type": "transcription" if is_transcription else "realtime",
            "id": new_id("sess"),
            "audio": {
                "input": {
                    "format": dict(PCM),
                    "transcription": None,
                    "noise_reduction": None,
                    "turn_detection": dict(SERVER_VAD),
                }
            },
            "include": None,
            "expires_at": 0,
        }
        if not is_transcription:
            self.session["audio"]["output"] = {"format": dict(PCM), "voice": "marin", "speed": 1.0}
            self.session |= {
                "model": model,
                "output_modalities": ["audio"],
                "instructions": "You are a helpful assistant.",
                "tools": [],
                "tool_choice": "auto",
                "max_output_tokens": "inf",
                "truncation": "auto",
                "tracing": None,
                "prompt": None,
            }

    @property
    def is_transcription(self) -> bool:
        """Whether the session has a transcriber only, and no model."""
        return bool(self.session["type"] == "transcription")

    @property
    def turn_detection(self) -> dict[str, Any] | None:
        """The input's turn detection; None if the client decides."""
        found = self.session["audio"]["input"]["turn_detection"]
        return found if isinstance(found, dict) else None

    @property
    def transcribes(self) -> bool:
        """Whether the user's audio is transcribed."""
        return self.session["audio"]["input"]["transcription"] is not None

    def update(self, changes: dict[str, Any]) -> dict[str, Any]:
        """Take a `session.update`; return the new session.

        Raises:
            Refusal: A field is invalid. Then nothing is changed.
        """
        kind = needed(changes, "type", str, "session")
        if kind not in ("realtime", "transcription"):
            raise Refusal(f"Invalid value: '{kind}'.", code="invalid_value", param="session.type")
        for name in changes:
            if name not in FIELDS:
                raise Refusal(
                    f"Unknown parameter: 'session.{name}'.", code="unknown_parameter", param=f"session.{name}"
                )
        session = copy.deepcopy(self.session)
        for name, value in changes.items():
            if name == "audio":
                _update_audio(session["audio"], value or {})
            elif name == "output_modalities":
                session[name] = modalities(value, "session.output_modalities")
            elif name != "model" or value is not None:
                session[name] = value
        self.session = session
        return session


def modalities(value: object, param: str) -> list[str]:
    """Return the output's modalities: one of text and audio.

    Raises:
        Refusal: The value is another one.
    """
    if value not in (["text"], ["audio"]):
        raise Refusal(
            f"Invalid modalities: {value!r}. Supported combinations are: ['text'] and ['audio'].",
            code="invalid_value",
            param=param,
        )
    return list(value)


def _update_audio(audio: dict[str, Any], changes: dict[str, Any]) -> None:
    for side in ("input", "output"):
        for name, value in (changes.get(side) or {}).items():
            param = f"session.audio.{side}.{name}"
            if name == "format":
                _check_format(value, param)
            if name == "turn_detection" and value is not None:
                kind = needed(value, "type", str, param)
                if kind not in TURN_DETECTIONS:
                    raise Refusal(f"Invalid value: '{kind}'.", code="invalid_value", param=f"{param}.type")
                value = TURN_DETECTIONS[kind] | {key: given for key, given in value.items() if given is not None}
            if side in audio:
                audio[side][name] = value


def _check_format(value: object, param: str) -> None:
    kind = value.get("type") if isinstance(value, dict) else None
    rate = value.get("rate", RATE) if isinstance(value, dict) else None
    if kind != "audio/pcm" or rate != RATE:
        raise Refusal(
            f"Invalid value: {value!r}. This scripted server takes audio/pcm at {RATE} Hz.",
            code="invalid_value",
            param=param,
        )
