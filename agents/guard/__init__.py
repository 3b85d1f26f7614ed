"""The content guard: application code that judges text before it is heard.

`content_guard` has the options and the verdicts, `model_judge` a language model as the judge. `guarding` asks the guard
in one session: sentence by sentence between the model and the voice, and for the caller's turns between the agent's
hook and the model.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vivavoce.pipelines.core.lazy import lazy_names

if TYPE_CHECKING:
    from vivavoce.agents.guard.model_judge import ModelJudge

_PLACES = {
    "vivavoce.agents.guard.model_judge": "ModelJudge",
}

__all__ = [
    "ModelJudge",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_names(__name__, _PLACES)
