"""The components of a scripted caller."""

from __future__ import annotations

import pytest

from vivavoce.agents.cli.call.caller import load_tts
from vivavoce.pipelines.core.errors import ConfigurationError


def test_a_voice_that_is_none_is_named() -> None:
    with pytest.raises(ConfigurationError, match="'nobody' is no plugin with a TTS"):
        load_tts("nobody", {})
    with pytest.raises(ConfigurationError, match="'silero' is no plugin with a TTS"):
        load_tts("silero", {})
    with pytest.raises(ConfigurationError, match=r"do not fit espeak\.TTS.*speed"):
        load_tts("espeak", {"speed": 3})
