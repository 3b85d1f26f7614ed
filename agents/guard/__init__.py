"""The content guard: application code that judges what is said before it is heard.

`content_guard` has what an application gives, `model_judge` a language model as the judge, and `guarding` has the texts
of one session judged: sentence by sentence between the model and the voice, and the caller's turns between the agent's
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
