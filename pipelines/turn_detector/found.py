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

    It is the same one each time. The log says which detector judges, or why the weights that are there cannot.
    """
    folder = models_folder()
    if not (files := sorted(folder.glob(FILES))):
        return None
    found = _detector(folder, files[-1].stat().st_mtime_ns)
    if isinstance(found, TurnDetector):
        logger.info("turn detector: smart_turn, since its weights are there (%s in %s)", found.model, folder)
        return found
    logger.warning("turns end by silence alone, although weights of smart_turn are there: %s", found)
    return None


@lru_cache(maxsize=1)
def _detector(folder: Path, changed: int) -> TurnDetector | Exception:
    """Return the detector with the weights of that folder and time, or why there is none."""
    try:
        detector: TurnDetector = import_module(PLUGIN).TurnDetector()
    except (ConfigurationError, ImportError) as error:
        return error
    return detector
