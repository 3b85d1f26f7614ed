"""The tones of a telephone line: the beep of a voicemail, and the three tones before an announcement of the network.

Source: ITU-T E.180 (special information tones, 950, 1400 and 1800 Hz, 330 ms each; tones of 400 and 425 Hz mean that it
rings or is busy).
"""

from __future__ import annotations

from typing import Literal

from vivavoce.pipelines.media.tone_detector import Tone

LineTone = Literal["beep", "tones"]
LOWEST_BEEP = 432.0
"""Hz; lower tones are those of a line that rings or is busy."""
LONGEST_BEEP = 1.6
"""Seconds; a fax answers with a longer tone."""
SAME = 20.0
"""Hz between two tones that are the same."""
INFORMATION = (950.0, 1400.0, 1800.0)
OFF = 60.0
"""Hz by which each of these may differ."""
INFORMATION_SECONDS = (0.2, 0.5)


def line_tone(row: tuple[Tone, ...]) -> LineTone | None:
    """Return what a row of tones says, each close behind the one before; None for any other sound."""
    if len(row) == len(INFORMATION) and all(map(_is_information, row, INFORMATION)):
        return "tones"
    first = row[0].frequency
    is_beep = first >= LOWEST_BEEP and all(
        abs(tone.frequency - first) <= SAME and tone.seconds <= LONGEST_BEEP + 1e-9 for tone in row
    )
    return "beep" if is_beep else None


def _is_information(tone: Tone, frequency: float) -> bool:
    shortest, longest = INFORMATION_SECONDS
    return abs(tone.frequency - frequency) <= OFF and shortest <= tone.seconds <= longest
