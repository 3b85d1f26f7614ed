"""Speaking: text to audio with a TTS, in either pipeline."""
