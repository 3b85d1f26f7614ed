"""Requests to `/v1/speak` (Aura): a voice whose words the twin itself hears.

Sources: https://developers.deepgram.com/reference/text-to-speech/speak-request (parameters, heads of the answer),
/docs/errors, deepgram-sdk 7.17.0 `speak/v1/audio/client.py`, `types/speak_v1model.py`.
"""

from __future__ import annotations

from collections.abc import Mapping

from vivavoce.plugins.deepgram.models import voices_of
from vivavoce.plugins.deepgram.twin.handshake import Refusal, bad

MAX_CHARACTERS = 2000

RATES = ("8000", "16000", "24000", "32000", "48000")
"""Hz, for linear16 (docs/tts-sample-rate)."""


def check_speak(query: Mapping[str, list[str]], text: object) -> Refusal | None:
    """Return the refusal of a request with a right key, or None for a good one."""
    model = query.get("model", ["aura-asteria-en"])[0]
    if model not in voices_of(model.rpartition("-")[2]) and not model.startswith("aura-asteria"):
        return bad("No such model/version combination found.")
    if query.get("encoding", [""])[0] != "linear16" or query.get("container", ["none"])[0] != "none":
        return bad("This twin speaks encoding=linear16 and container=none only.")
    if query.get("sample_rate", ["24000"])[0] not in RATES:
        return bad("Unsupported sample_rate.")
    if not 0.7 <= float(query.get("speed", ["1"])[0]) <= 1.5:
        return bad("speed must be between 0.7 and 1.5.")
    if not isinstance(text, str) or not text.strip():
        return bad("Request body must contain text.")
    if len(text) > MAX_CHARACTERS:
        return Refusal(413, "PAYLOAD_TOO_LARGE", f"Input text exceeds maximum character limit of {MAX_CHARACTERS}.")
    return None
