"""The check for the extra `room`: the packages that only the development room needs."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager

from vivavoce.pipelines.core.errors import ConfigurationError

_PACKAGES = ("aiortc", "aioice", "av", "pylibsrtp", "OpenSSL", "cryptography")


@contextmanager
def needs_room_extra() -> Iterator[None]:
    """Turn a failing import of one of the extra's packages into an error with advice.

    Raises:
        ConfigurationError: The extra is not installed.
    """
    try:
        yield
    except ImportError as exc:
        if (exc.name or "").partition(".")[0] in _PACKAGES:
            raise _missing(exc.name or "") from exc
        raise


def check_room_extra() -> None:
    """Raise ConfigurationError unless the extra's packages are there, without importing them."""
    for package in _PACKAGES:
        if importlib.util.find_spec(package) is None:
            raise _missing(package)


def _missing(package: str) -> ConfigurationError:
    return ConfigurationError(
        f"the development room needs {package}, which is not installed: run pip install 'vivavoce[room]'"
    )
