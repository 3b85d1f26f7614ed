"""The voices and variants of an espeak-ng data folder, and the library's names for them."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from pathlib import Path

from vivavoce.pipelines.core.errors import ConfigurationError

DEFAULT_PRIORITY = 5
"""Priority of a `language` line without a number, as in the library; the lowest wins."""


def resolve_voice(voice: str, data_path: str) -> str:
    """Return the library's name of a voice such as `"en-us"`, `"en-gb"` or `"en-us+f2"`.

    The library itself ignores an unknown variant without an error, and accepts the name of a file but not of a
    language.

    Raises:
        ConfigurationError: There is no such voice or variant; the message names similar ones.
    """
    name, plus, variant = voice.partition("+")
    data = Path(data_path)
    files = _files(data / "lang")
    if name.lower() not in files:
        raise ConfigurationError(
            f"voice must begin with a language of espeak-ng, got {voice!r}{_hint(name.lower(), files)}"
        )
    variants = {file.name for file in (data / "voices" / "!v").iterdir()}
    if plus and variant not in variants:
        raise ConfigurationError(
            f"voice must end with a variant of espeak-ng after its '+', got {voice!r}{_hint(variant, variants)}"
        )
    return files[name.lower()] + plus + variant


def _files(folder: Path) -> dict[str, str]:
    """Return the file of each file name, language tag and voice name, all in lower case."""
    best: dict[str, tuple[int, str]] = {}

    def claim(name: str, priority: int, file: Path) -> None:
        best[name.lower()] = min(best.get(name.lower(), (priority, file.name)), (priority, file.name))

    for file in sorted(folder.rglob("*")):
        if not file.is_file():
            continue
        claim(file.name, 0, file)
        for line in file.read_text(encoding="utf-8", errors="replace").splitlines():
            key, _, value = line.partition(" ")
            fields = value.split()
            if key == "language" and fields:
                is_numbered = len(fields) > 1 and fields[1].isdigit()
                claim(fields[0], int(fields[1]) if is_numbered else DEFAULT_PRIORITY, file)
            elif key == "name":
                claim(value.strip(), DEFAULT_PRIORITY, file)
    return {name: file for name, (_, file) in best.items()}


def _hint(name: str, known: Iterable[str]) -> str:
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=4) or names[:4]
    return f"; there are {len(names)}, such as {', '.join(near)}"
