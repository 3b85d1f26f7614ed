"""Answer: the message of the caller's page for a part. It is loaded with the first answer, since it needs pydantic."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, StrictInt, ValidationError

from vivavoce.pipelines.core.characters import whole_json

MAX_ANSWER = 200_000
"""Characters of an answer."""


class Answer(BaseModel):
    """An answer of the page: the index of a choice, or the values of a form."""

    model_config = ConfigDict(extra="forbid")

    part: str
    choice: StrictInt | None = None
    values: dict[str, Any] | None = None


def read_answer(json_text: str) -> Answer | None:
    """Return the page's answer, or None if the text is not an answer."""
    if len(json_text) > MAX_ANSWER:
        return None
    try:
        answer = Answer.model_validate_json(whole_json(json_text))
    except (ValidationError, RecursionError):
        return None
    return answer if (answer.choice is None) != (answer.values is None) else None
