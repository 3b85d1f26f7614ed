"""Names and types of files that another side has chosen, made safe; and the type of an image by its bytes."""

from __future__ import annotations

import re
import unicodedata

MAX_NAME = 120
"""The most characters of a file's name."""
UNNAMED = "file"
OCTETS = "application/octet-stream"

_TYPE = re.compile(r"[a-z0-9][a-z0-9!#$&^_.+-]{0,63}/[a-z0-9][a-z0-9!#$&^_.+-]{0,63}")
_RESERVED = re.compile(r"(?:con|prn|aux|nul|com\d|lpt\d)(?:\.|$)", re.IGNORECASE)
"""Names of devices on Windows."""
_IMAGES = (
    ("image/png", re.compile(rb"\x89PNG\r\n\x1a\n")),
    ("image/jpeg", re.compile(rb"\xff\xd8\xff")),
    ("image/gif", re.compile(rb"GIF8[79]a")),
    ("image/webp", re.compile(rb"RIFF....WEBP", re.DOTALL)),
)


def safe_name(name: str) -> str:
    """Return a name that is safe as the name of a file: no folder, no sign that changes what is shown or opened.

    Control and formatting characters (such as those that reverse the reading direction) and dots at the ends are left
    out; other signs that a file system may refuse become `_`. The extension stays when a long name is cut.
    """
    last = re.split(r"[/\\]", unicodedata.normalize("NFC", name))[-1]
    shown = "".join(sign for sign in last if unicodedata.category(sign)[0] != "C")
    plain = re.sub(r'[<>:"|?*]', "_", " ".join(shown.split())).strip(". ")
    if not plain:
        return UNNAMED
    if _RESERVED.match(plain):
        plain = f"_{plain}"
    if len(plain) > MAX_NAME:
        stem, dot, extension = plain.rpartition(".")
        kept = f".{extension}" if dot and stem and len(extension) <= 10 else ""
        plain = plain[: MAX_NAME - len(kept)].rstrip(". ") + kept
    return plain


def safe_type(media_type: str) -> str:
    """Return a media type in lower case and without parameters; `application/octet-stream` if it is not one."""
    plain = media_type.partition(";")[0].strip().lower()
    return plain if _TYPE.fullmatch(plain) else OCTETS


def image_type(data: bytes) -> str:
    """Return the media type of an image that browsers show; "" for other data."""
    return next((kind for kind, begin in _IMAGES if begin.match(data)), "")
