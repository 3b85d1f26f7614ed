"""The turn detector of a cascade that is given none: the one whose weights the user has got."""

from __future__ import annotations

import logging
from functools import lru_cache
from importlib import import_module
from pathlib import Path

from vivavoce.pipelines.core.errors import ConfigurationError
from vivavoce.pipelines.core.model_files import models_folder
from vivavoce.pipelines.turn_detector.base import TurnDetector

logger = logging.getLogger(__name__)

PLUGIN = "vivavoce.plugins.smart_turn"
"""By its name: pipelines know no plugin, and it is loaded only if its file is there."""
FILES = "smart-turn-*.onnx"


def found_detector() -> TurnDetector | None:
    """Return a smart_turn.TurnDetector if `vivavoce models get smart_turn` has put its weights into their folder.

    The log says which detector judges, or why the weights that are there cannot; once a process.
    """
    files = sorted(models_folder().glob(FILES))
    return _detector(models_folder(), files[-1].stat().st_mtime_ns) if files else None


@lru_cache(maxsize=1)
def _detector(folder: Path, changed: int) -> TurnDetector | None:
    try:
        detector: TurnDetector = import_module(PLUGIN).TurnDetector()
    except (ConfigurationError, ImportError) as error:
        logger.warning("turns end by silence alone, although weights of smart_turn are there: %s", error)
        return None
    logger.info("turn detector: smart_turn, since its weights are there (%s in %s)", detector.model, folder)
    return detector
