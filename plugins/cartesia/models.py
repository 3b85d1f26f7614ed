"""The models of voices and recognisers, their languages and the voices' emotions, as the vendor publishes them.

Sources: cartesia 4.2.0 (`types/tts_model.py`, `types/supported_language.py`, `types/emotion.py`,
`types/generation_request.py`, `types/stt/stt_manual_finalize_model.py`), and below https://docs.cartesia.ai/,
`build-with-cartesia/tts-models/older-models` and `api-reference/stt/stt` (the languages of ink-whisper).
"""

from __future__ import annotations

DEFAULT_MODEL = "sonic-3.5"

DEFAULT_VOICE = "f786b574-daa5-4673-aa0c-cbe3e8534c02"
"""Katie, whom the vendor recommends for agents: https://docs.cartesia.ai/build-with-cartesia/tts-models/sonic-3-5."""

SAMPLE_RATES = (8000, 16000, 22050, 24000, 44100, 48000)

_SONIC_2 = tuple("en fr de es pt zh ja hi it ko nl pl ru sv tr".split())
_SONIC_3 = (
    *_SONIC_2,
    *"tl bg ro ar cs el fi hr ms sk da ta uk hu no vi bn th he ka id te gu kn ml mr pa or ur".split(),
)

LANGUAGES = {
    "sonic-3.5": _SONIC_3,
    "sonic-3.5-2026-05-04": _SONIC_3,
    "sonic-3": _SONIC_3,
    "sonic-3-2026-01-12": _SONIC_3,
    "sonic-3-2025-10-27": _SONIC_3,
    "sonic-2": _SONIC_2,
    "sonic-turbo": _SONIC_2,
}
"""Model -> its languages, of the models that are known here; any other one is the server's to judge."""

BEFORE_CONTROLS = ("sonic-2", "sonic-turbo")
"""Models, and beginnings of their snapshots' names, on which speed, volume, emotion and dictionaries have no effect."""

EMOTIONS = tuple(
    "neutral happy excited enthusiastic elated euphoric triumphant amazed surprised flirtatious curious content "
    "peaceful serene calm grateful affectionate trust sympathetic anticipation mysterious angry mad outraged "
    "frustrated agitated threatened disgusted contempt envious sarcastic ironic sad dejected melancholic disappointed "
    "hurt guilty bored tired rejected nostalgic wistful apologetic hesitant insecure confused resigned anxious "
    "panicked alarmed scared proud confident distant skeptical contemplative determined".split()
)

DEFAULT_STT_MODEL = "ink-2"

_WHISPER = tuple(
    "en zh de es ru ko fr ja pt tr pl ca nl ar sv it id hi fi vi he uk el ms cs ro da hu ta no th ur hr bg lt la mi ml "
    "cy sk te fa lv bn sr az sl kn et mk br eu is hy ne mn bs kk sq sw gl mr pa si km sn yo so af oc ka be tg sd gu am "
    "yi lo uz fo ht ps tk nn mt sa lb my bo tl mg as tt haw ln ha ba jw su yue".split()
)

INK_LANGUAGES = {"ink-2": ("en",), "ink-whisper": _WHISPER, "ink-whisper-2025-06-04": _WHISPER}
"""Recogniser's model -> its languages, of the models that are known here; any other one is the server's to judge."""
