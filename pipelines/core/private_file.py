"""Files that hold a user's words: written whole or not at all, and readable only by their owner."""

from __future__ import annotations

import os
import tempfile
from itertools import count
from pathlib import Path
from typing import IO

OWNER_ONLY = 0o600


def write_private(path: Path, content: str | bytes) -> None:
    """Write a file in one step, in place of an existing one; text as UTF-8.

    A reader sees the old file or the new one, and a file that all users could read is private afterwards. Anything that
    is no file, such as `/dev/stdout`, is written to directly.

    Raises:
        OSError: It cannot be written; an existing file is unchanged.
    """
    data = content.encode() if isinstance(content, str) else content
    if path.exists() and not path.is_file():
        path.write_bytes(data)
        return
    target = Path(os.path.realpath(path))  # the target of a link is replaced, not the link
    descriptor, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name[:80]}.")  # made with mode 0600
    try:
        with open(descriptor, "wb") as file:
            file.write(data)
        os.replace(name, target)
    except BaseException:
        os.unlink(name)
        raise


def create_private(path: Path) -> tuple[int, Path]:
    """Create a new file: `path`, or the first free one of `…-2`, `…-3` and so on.

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


def private_file(path: Path) -> Path:
    """Make the file, for its owner only, if it does not exist; return its path.

    Raises:
        OSError: It cannot be made.
    """
    os.close(os.open(path, os.O_CREAT | os.O_WRONLY, OWNER_ONLY))
    return path


def open_private(path: Path) -> IO[bytes]:
    """Open a file to be written piece by piece, from its beginning; anything that is no file is opened directly.

    Raises:
        OSError: It cannot be opened.
    """
    file = open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, OWNER_ONLY), "wb")
    if path.is_file():
        try:
            os.chmod(path, OWNER_ONLY)  # else an existing file keeps its mode
        except OSError:
            file.close()
            raise
    return file
