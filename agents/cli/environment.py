"""Environment: the `.env` file of the working directory, and the masking of secrets.

A command takes its settings from its flags, then from the environment, then from `.env`; the first one wins.
"""

from __future__ import annotations

import os
from pathlib import Path

from vivavoce.pipelines.core.errors import ConfigurationError

ENV_FILE = ".env"
SHOWN = 4
"""Characters at the end of a long secret that are shown, to distinguish secrets."""
LONG = 20


def load_env_file(path: Path | None = None) -> Path | None:
    """Load variables that the environment lacks from a file; return it, None if there is none.

    Args:
        path: None: `.env` in the working directory, if it exists.
    Raises:
        ConfigurationError: It cannot be read.
    """
    from dotenv import dotenv_values

    file = path or Path(ENV_FILE)
    if path is None and not file.is_file():
        return None
    try:
        with file.open(encoding="utf-8") as stream:
            values = dotenv_values(stream=stream)
    except OSError as error:
        raise ConfigurationError(f"cannot read the environment file '{file}': {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"the environment file '{file}' is not text in UTF-8") from error
    for name, value in values.items():
        if value is not None:
            os.environ.setdefault(name, value)
    return file


def masked(secret: str) -> str:
    """Return the text shown for a secret: whether it is set, and the end of a long one."""
    if not secret:
        return "not set"
    return f"set (…{secret[-SHOWN:]})" if len(secret) >= LONG else "set"
