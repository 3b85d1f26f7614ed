"""The weights: files of the installed wheel moonshine-voice, found without importing it, and checked."""

from __future__ import annotations

import hashlib
import platform
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path

from vivavoce.pipelines.core.errors import ConfigurationError

PACKAGE = "moonshine-voice"
VERSION = "0.1.0"
ENCODER = "encoder_model.ort"
DECODER = "decoder_model_merged.ort"
TOKENIZER = "tokenizer.bin"
CHECKSUMS = {
    ENCODER: "94e90a4654fc45cdfedb77c4c08e1739f48862998e58fada384b25118134f221",
    DECODER: "cf524c4862d36e9e5ab032eddc73637efd822d70e868ac575cf1a46e1e4708a0",
    TOKENIZER: "6884b35fd6377d4c4d32336a0bc152f36b64d1e45b6503683cdc238250a8472d",
}
"""SHA-256 by file."""
FOLDER = Path("moonshine_voice") / "assets" / "tiny-en"
REINSTALL = f"`pip install --force-reinstall --no-deps {PACKAGE}=={VERSION}`"


def find_folder() -> Path:
    """Return the folder of the weights; their contents are not read yet.

    Raises:
        ConfigurationError: A needed package is not installed, or is another version, or lacks a file.
    """
    wheel = _wheel()
    if find_spec("onnxruntime") is None:
        raise ConfigurationError(
            "moonshine.STT needs onnxruntime, which is missing: `pip install 'vivavoce[moonshine]'`"
        )
    if wheel.version != VERSION:
        raise ConfigurationError(
            f"moonshine.STT needs {PACKAGE} {VERSION}, the last version that has its weights, got {wheel.version}: "
            f"`pip install {PACKAGE}=={VERSION}`"
        )
    folder = Path(str(wheel.locate_file(FOLDER)))
    if missing := [name for name in CHECKSUMS if not (folder / name).is_file()]:
        raise ConfigurationError(f"moonshine.STT needs {', '.join(missing)} in {str(folder)!r}: {REINSTALL}")
    return folder


def read(folder: Path, name: str) -> bytes:
    """Return the contents of a file.

    Raises:
        ConfigurationError: It is damaged, or of another version.
    """
    data = (folder / name).read_bytes()
    found = hashlib.sha256(data).hexdigest()
    if found != CHECKSUMS[name]:
        raise ConfigurationError(
            f"moonshine.STT needs {name} of {PACKAGE} {VERSION} (SHA-256 {CHECKSUMS[name][:12]}…), got "
            f"{str(folder / name)!r} with {found[:12]}…, which is damaged or of another version: {REINSTALL}"
        )
    return data


def _wheel() -> Distribution:
    try:
        return distribution(PACKAGE)
    except PackageNotFoundError as error:
        raise ConfigurationError(
            f"moonshine.STT needs {PACKAGE} {VERSION}, which is missing: `pip install 'vivavoce[moonshine]'`. It has "
            "wheels for Linux (glibc 2.34 or newer; x86_64, aarch64), macOS 15 or newer (arm64) and Windows (x86_64); "
            f"this machine is {platform.system()} {platform.machine()}. Where there is none, take pocketsphinx or a "
            "vendor's recogniser"
        ) from error
