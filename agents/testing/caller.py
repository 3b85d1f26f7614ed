"""Caller: the scripted caller of a test: speech, noise, recognised words and typed text, each at its time."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from itertools import count
from typing import Protocol

from vivavoce.agents.telephony.key_entry import KEYS
from vivavoce.agents.transports.local import LocalTransport
from vivavoce.pipelines.core.clock import Clock, TimerHandle
from vivavoce.pipelines.core.errors import ConfigurationError
from vivavoce.pipelines.core.words import count_words
from vivavoce.pipelines.media.frame import BYTES_PER_SAMPLE, FRAME_SECONDS, AudioFrame

LOUD = 1000
"""Sample value of the caller's sounds; silence is 0. `ScriptedVAD` distinguishes the two."""
SECONDS_PER_WORD = 0.3
"""Speed of the caller's speech if a test gives no end."""
RECOGNITION_DELAY = 0.2
"""Seconds from the end of speech to its final transcript if a test gives no time."""


class Recognises(Protocol):
    """Receives the caller's words: called with text, whether it is final, and the utterance's id."""

    def __call__(self, text: str, is_final: bool, item_id: str) -> None: ...


class Caller:
    """The other end of the line. All times are seconds from the session's start.

    Sounds begin and end at multiples of 0.02 (a frame), other times are refused; words are recognised, and text is
    typed, at any time.

    It may be scripted before the session starts and at any time while it runs. No task runs here: one timer plays
    sounds, words and typed text in order; at equal times sounds come first.

    Args:
        identity: Identity of the caller in the room.
    """

    def __init__(self, recognises: Recognises, *, identity: str = "caller") -> None:
        self.identity = identity
        self.error: Exception | None = None
        """The exception of a scripted action; the harness raises it at the end."""
        self.typed: list[str] = []
        """Texts that were typed, or that are scripted to be typed."""
        self._recognises = recognises
        self._sounds = _Sounds()
        self._given: dict[int, AudioFrame] = {}
        """Frames of given sound, by their number."""
        self._agenda: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = count(1)
        self._frames = 0
        self._is_silent = False
        self._clock: Clock | None = None
        self._transport: LocalTransport | None = None
        self._began_at = 0.0
        self._timer: TimerHandle | None = None

    # --- the script

    def says(
        self,
        text: str,
        start: float | None = None,
        end: float | None = None,
        *,
        final_at: float | None = None,
        interims: Sequence[tuple[float, str]] = (),
    ) -> float:
        """Speak `text`, and have it recognised; return the time of its final transcript.

        Args:
            start, end: Beginning and end of the sound; by default from now, 0.3 s a word.
            final_at: Time of its final transcript; by default 0.2 s after `end`.
            interims: (time, text) of interim transcripts.
        """
        start = self._soon() if start is None else start
        end = start + SECONDS_PER_WORD * count_words(text) if end is None else end
        final_at = end + RECOGNITION_DELAY if final_at is None else final_at
        item_id = f"item_{next(self._numbers)}"
        self.makes_noise(start, end)
        for at, words in interims:
            self._plan(at, lambda words=words: self._recognises(words, False, item_id))  # type: ignore[misc]
        self._plan(final_at, lambda: self._recognises(text, True, item_id))
        return final_at

    def makes_noise(self, start: float, end: float, *, level: int = LOUD) -> None:
        """Make sound without words.

        Args:
            level: Its sample value, by which a recogniser of the test can tell sounds apart.
        Raises:
            ValueError: It does not end after its start, a time is no multiple of 0.02 s, or the level is not loud.
        """
        if not 0 <= start < end:
            raise ValueError(f"a sound needs 0 <= start < end (s), got {start!r}, {end!r}")
        if not LOUD <= level < 1 << 15:
            raise ValueError(f"level must be at least {LOUD} and below {1 << 15}, got {level!r}")
        self._sounds.add(_frames(start), _frames(end), level)
        if self._is_silent:
            self._frames, self._is_silent = round(self._soon() / FRAME_SECONDS), False
            self._arm()

    def plays(self, sound: AudioFrame, start: float) -> float:
        """Play recorded sound, such as a beep, in place of any other at that time; return when it ends.

        Args:
            sound: Mono, at the room's `input_rate`; the last frame is filled up with silence.
        """
        size = BYTES_PER_SAMPLE * round(FRAME_SECONDS * sound.sample_rate)
        first = _frames(start)
        for number, at in enumerate(range(0, len(sound.data), size), first):
            self._given[number] = AudioFrame(sound.data[at : at + size].ljust(size, b"\0"), sound.sample_rate)
        return (first + -(-len(sound.data) // size)) * FRAME_SECONDS

    def is_recognised(self, text: str, at: float, *, is_final: bool = True) -> None:
        """Have words recognised at `at`, independent of the sound: late, early, or without any."""
        item_id = f"item_{next(self._numbers)}"
        self._plan(at, lambda: self._recognises(text, is_final, item_id))

    def types(self, text: str, at: float | None = None) -> None:
        """Type `text`, by default now."""
        self.typed.append(text)
        self._plan(self._soon() if at is None else at, lambda: self._room.send_text(text))

    def presses(self, keys: str, at: float | None = None) -> None:
        """Press keys of a telephone (0 to 9, *, #, A to D), one after the other, by default now."""
        if not keys or set(keys) - set(KEYS):
            raise ConfigurationError(f"need keys of {KEYS}, got {keys!r}")
        for number, key in enumerate(keys):
            start = self._soon() if at is None else at
            self._plan(start + 0.2 * number, partial(self._press, key))

    def leaves(self, at: float | None = None) -> None:
        """Leave the room."""
        self._plan(self._soon() if at is None else at, lambda: self._room.drop(self.identity))

    def joins(self, at: float | None = None, *, identity: str | None = None) -> None:
        """Join the room (again), or let another participant join."""
        self._plan(self._soon() if at is None else at, lambda: self._room.join(identity or self.identity))

    def _press(self, key: str) -> None:
        self._room.press_key(key)

    # --- for the harness

    def begin(self, transport: LocalTransport, clock: Clock, *, is_silent: bool = False) -> None:
        """Play the script from now on.

        Args:
            is_silent: Whether the session neither hears nor sounds: the caller sends frames only once a sound is
                scripted.
        """
        self._transport, self._clock, self._began_at = transport, clock, clock.now()
        self._is_silent = is_silent and not self._sounds.is_any
        self._arm()

    def stop(self) -> None:
        """Fall silent for good."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._clock = None

    @property
    def _room(self) -> LocalTransport:
        assert self._transport is not None, "the script is played after begin()"
        return self._transport

    def _soon(self) -> float:
        """Return the beginning of the next frame to be pushed."""
        frames = self._frames
        if self._is_silent and self._clock is not None:
            frames = math.ceil((self._clock.now() - self._began_at) / FRAME_SECONDS - 1e-6)
        return frames * FRAME_SECONDS

    def _plan(self, at: float, action: Callable[[], None]) -> None:
        heapq.heappush(self._agenda, (at, next(self._numbers), action))
        if self._clock is not None:
            self._arm()

    def _arm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        assert self._clock is not None
        when = math.inf if self._is_silent else (self._frames + 1) * FRAME_SECONDS
        if self._agenda:
            when = min(when, self._agenda[0][0])
        if when == math.inf:
            return
        self._timer = self._clock.call_at(self._began_at + when, self._on_timer)

    def _on_timer(self) -> None:
        assert self._clock is not None
        self._timer = None
        try:
            self._play_until(self._clock.now() - self._began_at + 1e-9)
        except Exception as error:  # noqa: BLE001 - a timer has no caller; the harness raises it
            self.error = self.error or error
            return
        if self._clock is not None:
            self._arm()

    def _play_until(self, now: float) -> None:
        while True:
            frame_at = math.inf if self._is_silent else (self._frames + 1) * FRAME_SECONDS
            action_at = self._agenda[0][0] if self._agenda else math.inf
            if min(frame_at, action_at) > now:
                return
            if frame_at <= action_at:
                self._push_frame()
            else:
                heapq.heappop(self._agenda)[2]()

    def _push_frame(self) -> None:
        rate, number = self._room.input_rate, self._frames
        self._frames += 1
        sounding = _frame(self._sounds.level_at(number), rate)
        self._room.push_audio(self._given.pop(number, sounding))


class _Sounds:
    """Finds loud frames, asked in rising order: it looks at each sound only while it lasts, so a long script is cheap.

    A sound that is added in the past is not heard.
    """

    def __init__(self) -> None:
        self._coming: list[tuple[int, int, int]] = []
        self.is_any = False
        """Whether one was ever added."""
        self._loud_until = 0
        self._level = 0

    def add(self, start: int, end: int, level: int) -> None:
        heapq.heappush(self._coming, (start, end, level))
        self.is_any = True

    def level_at(self, number: int) -> int:
        while self._coming and self._coming[0][0] <= number:
            _, until, self._level = heapq.heappop(self._coming)
            self._loud_until = max(self._loud_until, until)
        return self._level if number < self._loud_until else 0


def _frames(seconds: float) -> int:
    """Return the number of frames in `seconds`.

    Raises:
        ValueError: It is no whole number.
    """
    frames = round(seconds / FRAME_SECONDS)
    if abs(frames * FRAME_SECONDS - seconds) > 1e-6:
        raise ValueError(
            f"a sound begins and ends at a multiple of {FRAME_SECONDS} s, got {seconds!r}; "
            f"write {frames * FRAME_SECONDS:.2f}"
        )
    return frames


@lru_cache(maxsize=64)
def _frame(level: int, rate: int) -> AudioFrame:
    samples = round(FRAME_SECONDS * rate)
    return AudioFrame(level.to_bytes(2, "little") * samples, rate)
