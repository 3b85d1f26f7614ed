"""The application of a job process: packed in the worker, unpacked in the process.

Functions and classes travel by name. Their modules are imported in the process, or loaded from the same file under the
same name if an import of that name leads elsewhere, as for the file of `vivavoce start`.
"""

from __future__ import annotations

import importlib.util
import io
import logging
import multiprocessing
import os
import pickle
import sys
from dataclasses import dataclass, fields, replace
from multiprocessing import spawn
from types import BuiltinFunctionType, FunctionType
from typing import Any

from vivavoce.agents.telemetry.telemetry import Telemetry
from vivavoce.agents.worker.executors.executor import Entrypoint
from vivavoce.agents.worker.options import WorkerOptions
from vivavoce.pipelines.core.checks import shown
from vivavoce.pipelines.core.errors import ConfigurationError

NURSERY = "vivavoce-nursery"
"""`multiprocessing.current_process().name` of the process that loads the application."""

_OF_THE_WORKER = ("on_request", "load")
"""Options that are called in the worker's own process."""

_REMEDY = (
    "define it at the top of a module, or run the jobs in the worker's own process: "
    "WorkerOptions(executor=TaskExecution())"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Application:
    """The unpacked parcel."""

    entrypoint: Entrypoint
    options: WorkerOptions
    log_levels: dict[str, int]
    """The worker's, by logger."""


@dataclass(frozen=True, slots=True)
class _ModuleFile:
    """A module that is loaded from its file."""

    name: str
    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Parcel:
    """The data from which a process loads the application."""

    preparation: dict[str, Any]
    """For `multiprocessing.spawn.prepare`: import path, arguments, folder, main module."""
    modules: tuple[_ModuleFile, ...]
    content: bytes
    log_levels: dict[str, int]

    def unpack(self) -> Application:
        """Load the application's modules and return it; raises whatever they raise."""
        spawn.prepare(self.preparation)
        for module in self.modules:
            _load(module)
        entrypoint, options = pickle.loads(self.content)
        return Application(entrypoint=entrypoint, options=options, log_levels=self.log_levels)


def pack(entrypoint: Entrypoint, options: WorkerOptions) -> Parcel:
    """Return the parcel of an application.

    Raises:
        ConfigurationError: A part cannot be sent to another process, or the main module starts a worker while it is
            imported.
    """
    if multiprocessing.current_process().name.startswith(NURSERY):
        raise ConfigurationError(
            "a job process imports the main module to find the entrypoint there, and the module starts the worker at "
            "once, got no guard around it: start the worker below `if __name__ == '__main__':`"
        )
    if not hasattr(os, "fork"):
        raise ConfigurationError(f"job processes need fork(), got {sys.platform}: choose TaskExecution()")
    if isinstance(options.telemetry, Telemetry):
        raise ConfigurationError(
            "each job process makes its own telemetry and needs telemetry=TelemetryOptions(…), got a Telemetry; pass "
            "its options, or run the jobs in the worker's own process: WorkerOptions(executor=TaskExecution())"
        )
    own = replace(options, **dict.fromkeys(_OF_THE_WORKER))  # type: ignore[arg-type]
    _check("the entrypoint", entrypoint)
    for option in fields(own):
        _check(f"the option {option.name}", getattr(own, option.name))
    content, modules = _packed((entrypoint, own))
    return Parcel(
        preparation=_preparation(modules),
        modules=_module_files(modules),
        content=content,
        log_levels=_log_levels(),
    )


def _check(what: str, value: object) -> None:
    try:
        _packed(value)
    except Exception as error:  # noqa: BLE001 - whatever a value's own pickling raises
        given = shown(value) if callable(value) else f"a {type(value).__name__}"  # another value may hold a secret
        raise ConfigurationError(
            f"job processes need {what} as something that another process can import, got {given} ({error}); {_REMEDY}"
        ) from error


class _Packer(pickle.Pickler):
    """Notes the modules of the functions and classes that it packs."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file)
        self.modules: dict[str, None] = {}

    def persistent_id(self, value: Any) -> None:
        if isinstance(value, type | FunctionType | BuiltinFunctionType):
            self.modules[value.__module__] = None


def _packed(value: object) -> tuple[bytes, list[str]]:
    file = io.BytesIO()
    packer = _Packer(file)
    packer.dump(value)
    return file.getvalue(), list(packer.modules)


def _log_levels() -> dict[str, int]:
    known = logging.Logger.manager.loggerDict.items()
    given = {name: logger.level for name, logger in known if isinstance(logger, logging.Logger) and logger.level}
    return {**given, logging.root.name: logging.root.level}


def _preparation(modules: list[str]) -> dict[str, Any]:
    data = spawn.get_preparation_data(NURSERY)
    wanted = {"sys_path", "sys_argv", "dir", "orig_dir"}
    if "__main__" in modules:
        wanted |= {"init_main_from_name", "init_main_from_path"}
    return {name: value for name, value in data.items() if name in wanted}


def _module_files(modules: list[str]) -> tuple[_ModuleFile, ...]:
    found = []
    for name in modules:
        spec = getattr(sys.modules.get(name), "__spec__", None)
        if name == "__main__" or spec is None or not spec.has_location:
            continue
        # The nursery has loaded modules of the standard library before; a file of such a name takes their place.
        if name in sys.stdlib_module_names or not _is_importable(name, spec.origin):
            found.append(_ModuleFile(name, os.path.abspath(spec.origin)))
    return tuple(found)


def _is_importable(name: str, origin: str) -> bool:
    """Return whether a fresh interpreter with this import path finds that file by that name."""
    package, _, _ = name.rpartition(".")
    if package and package not in sys.modules:
        return False
    path = sys.modules[package].__path__ if package else None
    # Not `importlib.util.find_spec`: for a loaded module it returns the module's own spec without a search.
    specs = (finder.find_spec(name, path) for finder in sys.meta_path)
    spec = next(filter(None, specs), None)
    return spec is not None and spec.origin is not None and os.path.realpath(spec.origin) == os.path.realpath(origin)


def _load(file: _ModuleFile) -> None:
    known = sys.modules.get(file.name)
    if known is not None and getattr(known, "__file__", None) == file.path:
        return
    spec = importlib.util.spec_from_file_location(file.name, file.path)
    assert spec is not None, "the worker has loaded it by the same way"
    assert spec.loader is not None, "as above"
    module = importlib.util.module_from_spec(spec)
    sys.modules[file.name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        sys.modules.pop(file.name, None)
        raise
