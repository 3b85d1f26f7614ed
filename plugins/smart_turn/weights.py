"""The published weights that `vivavoce models get smart_turn` takes, and the network of this process with them."""

from __future__ import annotations

import threading
from functools import lru_cache
from pathlib import Path

from vivavoce.pipelines.core.model_files import ModelFile
from vivavoce.plugins.smart_turn.network import Network

WEIGHTS = ModelFile(
    name="smart_turn",
    file="smart-turn-v3.2-cpu.onnx",
    size=8_679_182,
    sha256="2bb026316b14a660486a75b1733cd3fbab8c2fd0314dc9af7be49f8cca967e4f",
    licence="BSD-2-Clause",
    source="https://github.com/pipecat-ai/smart-turn",
    wheel="pipecat-ai==1.14.0",
    wheel_size=12_109_725,
    member="pipecat/audio/turn/smart_turn/data/smart-turn-v3.2-cpu.onnx",
)
_LOADING = threading.Lock()


def shared_network(path: Path, threads: int) -> Network:
    """Return the network of this process, which is loaded once; some 0.1 s.

    Raises:
        ConfigurationError: As `Network`.
    """
    with _LOADING:
        return _loaded(path, threads)


@lru_cache(maxsize=1)
def _loaded(path: Path, threads: int) -> Network:
    return Network(path, threads)
