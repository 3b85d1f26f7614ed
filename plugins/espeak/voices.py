"""Which voices and variants an espeak-ng data folder holds."""

from __future__ import annotations

import difflib
from pathlib import Path

from vivavoce.pipelines.core.errors import ConfigurationError


def require_voice(voice: str, data_path: str) -> None:
    """Check a voice such as `"en-us"` or `"en-us+f2"`.

    espeak-ng itself ignores an unknown variant without a word.

    Raises:
        ConfigurationError: There is no such voice or variant; the message names similar ones.
    """
    name, plus, variant = voice.partition("+")
    data = Path(data_path)
    languages = _languages(data / "lang")
    if name.lower() not in languages:
        raise ConfigurationError(
            f"voice must begin with a language of espeak-ng, got {voice!r}{_hint(name.lower(), languages)}"
        )
    variants = {file.name for file in (data / "voices" / "!v").iterdir()}
    if plus and variant not in variants:
        raise ConfigurationError(
            f"voice must end with a variant of espeak-ng after its '+', got {voice!r}{_hint(variant, variants)}"
        )


def _languages(folder: Path) -> set[str]:
    """Return language tags and names of the voice files, in lower case."""
    found = set()
    for file in folder.rglob("*"):
        if not file.is_file():
            continue
        for line in file.read_text(encoding="utf-8", errors="replace").splitlines():
            key, _, value = line.partition(" ")
            if key == "language" and value.split():
                found.add(value.split()[0].lower())
            elif key == "name":
                found.add(value.strip().lower())
    return found


def _hint(name: str, known: set[str]) -> str:
    near = difflib.get_close_matches(name, sorted(known), n=4) or sorted(known)[:4]
    return f"; there are {len(known)}, such as {', '.join(near)}"
