"""Names of the files that a session writes for itself: its trace, its report, its recordings.

Each session has files of its own, however many sessions share one option. With the default suffix `.wav`:

| path given | file |
|---|---|
| a folder (it exists, or ends in "/"), or a name without a suffix: `calls` | `calls/<session id>.wav` |
| a name with a suffix: `call.ogg` | `call.<session id>.ogg` |

Characters of the id that not every file system takes become "_". Two sessions may therefore ask for one file:
`pipelines.core.private_file.create_private` gives the second one a name beside it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

from vivavoce.pipelines.core.errors import ConfigurationError

REPORT_VARIABLE = "VIVAVOCE_REPORT"


def session_file(
    path: str | Path, session_id: str, *, suffix: str, suffixes: Sequence[str] = (), what: str = "a file"
) -> Path:
    """Return the session's file for an option's path.

    Args:
        suffix: The suffix in a folder.
        suffixes: The suffixes that a name may have; empty: any.
        what: The kind of file, for the error.
    Raises:
        ConfigurationError: The name has another suffix.
    """
    wanted = str.__str__(path) if isinstance(path, str) else os.fspath(path)  # a subclass of str may lie
    name, given = re.sub(r"[^\w.-]", "_", session_id), Path(wanted)
    if wanted.endswith(os.sep) or given.is_dir() or not given.suffix:
        return given / f"{name}{suffix}"
    if suffixes and given.suffix not in suffixes:
        raise ConfigurationError(f"{what} is a folder or a file in {', '.join(suffixes)}, got {wanted!r}")
    return given.with_name(f"{given.stem}.{name}{given.suffix}")


def report_file(path: str | Path | None, session_id: str) -> Path | None:
    """Return the file of the session's report, or None without one.

    The suffix `.json` is for `vivavoce report`; `.html` is the page itself.

    Args:
        path: Of `SessionOptions(report_path=...)`; "" turns the report off, None asks `VIVAVOCE_REPORT`.
    Raises:
        ConfigurationError: The path has another suffix.
    """
    wanted = os.environ.get(REPORT_VARIABLE, "") if path is None else os.fspath(path)
    if not wanted:
        return None
    return session_file(wanted, session_id, suffix=".json", suffixes=(".json", ".html"), what="a report")
