"""Files that hold what somebody said: whole or not there at all, and for their owner's eyes only."""

from __future__ import annotations

import os
import tempfile
from itertools import count
from pathlib import Path
from typing import IO

OWNER_ONLY = 0o600


def write_private(path: Path, content: str | bytes) -> None:
    """Write a file in one step, in place of one that is there; text as UTF-8.

    Who reads it meanwhile sees the old one or the new one, and one that was readable by all no longer is. What is no
    file, such as `/dev/stdout`, is written to as it is.

    Raises:
        OSError: It cannot be written; one that was there is as it was.
    """
    data = content.encode() if isinstance(content, str) else content
    if path.exists() and not path.is_file():
        path.write_bytes(data)
        return
    target = Path(os.path.realpath(path))  # what a link points to is replaced, and not the link
    descriptor, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name[:80]}.")  # made with mode 0600
    try:
        with open(descriptor, "wb") as file:
            file.write(data)
        os.replace(name, target)
    except BaseException:
        os.unlink(name)
        raise


def create_private(path: Path) -> tuple[int, Path]:
    """Create a file that is not there yet: `path`, or the first free one of `…-2`, `…-3` and so on.

    Missing folders are made, for their owner only.

    Returns:
        The open file's descriptor, and its path.
    Raises:
        OSError: It cannot be made.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    for number in count(1):
        free = path if number == 1 else path.with_stem(f"{path.stem}-{number}")
        try:
            return os.open(free, os.O_WRONLY | os.O_CREAT | os.O_EXCL, OWNER_ONLY), free
        except FileExistsError:
            continue
    raise AssertionError("count() has no end")


def open_private(path: Path) -> IO[bytes]:
    """Open a file to be written piece by piece, from its beginning; what is no file is opened as it is.

    Raises:
        OSError: It cannot be opened.
    """
    file = open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, OWNER_ONLY), "wb")
    if path.is_file():
        try:
            os.chmod(path, OWNER_ONLY)  # one that was there keeps its mode otherwise
        except OSError:
            file.close()
            raise
    return file
