"""The TTS port: text in, audio out as it is made."""
