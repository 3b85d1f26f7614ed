"""The libraries of the extra `tasks`, loaded when a task needs one."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from vivavoce.pipelines.core.errors import ConfigurationError


def needed(module: str) -> Any:
    """Return a library of the extra.

    Raises:
        ConfigurationError: It is not installed.
    """
    try:
        return import_module(module)
    except ImportError as error:
        remedy = "pip install 'vivavoce[tasks]'"
        raise ConfigurationError(f"this task needs {module}, which is not installed: {remedy}") from error
