"""The models, voices and languages of ElevenLabs, as the vendor publishes them; the service may have others.

Sources: elevenlabs 2.78.0 (`README`, `types/text_to_speech_output_format_enum.py`, `realtime/scribe.py`),
https://elevenlabs.io/docs/overview/models, and the languages that pipecat-ai 1.14.0 (`services/elevenlabs/tts_base.py`)
found accepted.
"""

from __future__ import annotations

DEFAULT_MODEL = "eleven_flash_v2_5"
"""The model of the least latency, which the vendor recommends for agents."""

DEFAULT_VOICE = "JBFqnCBsd6RMkjVDRZzb"
"""George, the voice of the vendor's quickstart."""

DEFAULT_STT_MODEL = "scribe_v2_realtime"

SAMPLE_RATES = (8000, 16000, 22050, 24000, 44100)

_V2_5 = tuple(
    "en ar bg cs da de el es fi fil fr hi hr hu id it ja ko ms nl no pl pt ro ru sk sv ta tr uk vi zh".split()
)

LANGUAGES = {
    "eleven_flash_v2_5": _V2_5,
    "eleven_turbo_v2_5": _V2_5,
    "eleven_flash_v2": ("en",),
    "eleven_turbo_v2": ("en",),
    "eleven_multilingual_v2": (),
}
"""Model -> the languages that can be asked for; none: it goes by the text. Of the models that are known here."""

DIALOGUE_MODELS = ("eleven_v3", "eleven_v4")
"""Beginnings of models that another API has, and this plugin has not."""

WITHOUT_NORMALIZATION = ("eleven_flash_v2_5", "eleven_turbo_v2_5")
"""Models for which `normalization="on"` is refused: https://elevenlabs.io/docs/api-reference/text-to-speech/
v-1-text-to-speech-voice-id-multi-stream-input."""

SPACELESS = ("ja", "ko", "zh")
"""Languages whose normalised form is in Latin letters."""
