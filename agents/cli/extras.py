"""Extras: the packages that the core and each extra need, and whether they are installed."""

from __future__ import annotations

import re
from importlib.metadata import PackageNotFoundError, metadata, requires, version

WITHOUT_USE = frozenset({"dev", "lock", "mutate"})
"""Extras without a use for users: they are for developers."""

_REQUIREMENT = re.compile(
    r"^(?P<name>[A-Za-z0-9._-]+)(?:\[(?P<extras>[^\]]*)\])?.*?(?:extra == [\"'](?P<extra>[^\"']+))?[\"']?$"
)


def needs() -> dict[str, list[str]]:
    """Return the required packages by extra, of extras that need any; the core's come first, under the empty name."""
    try:
        lines = requires("vivavoce") or []
    except PackageNotFoundError:
        return {}
    needed: dict[str, list[str]] = {"": []}
    for line in lines:
        match = _REQUIREMENT.match(line)
        if match is None or match["name"] == "vivavoce" or match["extra"] in WITHOUT_USE:
            continue
        needed.setdefault(match["extra"] or "", []).append(match["name"])
    return needed


def names() -> frozenset[str]:
    """Return the names of all extras, also of those that need no package."""
    try:
        return frozenset(metadata("vivavoce").get_all("Provides-Extra") or ())
    except PackageNotFoundError:
        return frozenset()


def installed_version(name: str) -> str | None:
    """Return the version of a package; None if it is not installed."""
    try:
        return version(name)
    except PackageNotFoundError:
        return None
