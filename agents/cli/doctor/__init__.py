"""The checks of `vivavoce doctor`: `machine` (Python, extras, audio devices), `servers` (LiveKit, OTLP), `findings`.

The checks only look: they install nothing, make no room, play no audio.
"""
