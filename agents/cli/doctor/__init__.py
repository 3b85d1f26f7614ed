"""The checks of `vivavoce doctor`: `machine` (Python, extras, audio), `servers` (LiveKit, OTLP), `keys`, `findings`.

The checks only look: they install nothing, make no room, play no audio.
"""
