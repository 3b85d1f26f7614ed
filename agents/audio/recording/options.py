"""RecordingOptions: the file that a call is recorded to, and the consent to it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from vivavoce.agents.core.session_files import session_file
from vivavoce.pipelines.core.checks import check_flag, check_function, check_whole, shown
from vivavoce.pipelines.core.errors import ConfigurationError

ConsentHook = Callable[[Any], Awaitable[bool]]
"""Receives the session, and returns whether it may be recorded; called before each recording."""

SUFFIXES = (".wav", ".ogg", ".opus")


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordingOptions:
    """The format of `session.recording`.

    Each option: docs/options.md.
    """

    path: str | Path = "recordings/"
    """A folder, for `<session id>.wav`, or a name that ends in .wav, .ogg or .opus (the extra `audio`): `call.wav` is
    the file `call.<session id>.wav`. A file that is there already is never touched: the next one is `…-2`."""
    autostart: bool = True
    """Begin with the session; else by `session.recording.start()`."""
    sample_rate: int = 24000
    """Hz of both sides: 8000, 12000, 16000, 24000 or 48000."""
    consent: ConsentHook | None = field(default=None, repr=False)
    """An async function of the session that returns whether the caller may be recorded; it may `say` something and wait
    for an answer. Without consent, or without an answer in 60 s, nothing is recorded."""

    def __post_init__(self) -> None:
        check_flag("autostart", self.autostart)
        check_whole("sample_rate", self.sample_rate, at_least=1)
        if self.sample_rate not in (8000, 12000, 16000, 24000, 48000):
            rates = "8000, 12000, 16000, 24000 or 48000 Hz"
            raise ConfigurationError(f"sample_rate must be {rates}, got {self.sample_rate!r}")
        check_function("consent", self.consent, or_none=True, remedy="give an async function of the session")
        recording_file(self.path, "session")


def recording_file(path: str | Path, session_id: str) -> Path:
    """Return the file of a session.

    Raises:
        ConfigurationError: The path is of another kind, or has another suffix.
    """
    if not isinstance(path, str | Path):
        raise ConfigurationError(f"a recording needs the path of a folder or file, got {shown(path)}")
    return session_file(path, session_id, suffix=".wav", suffixes=SUFFIXES, what="a recording")
