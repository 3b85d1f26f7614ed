"""Calls: the parts of a tool call that Gemini's two APIs have in common."""

from __future__ import annotations

import json
from typing import Any

from vivavoce.pipelines.llm.chat_context import FunctionCallOutput


def arguments_of(text: str) -> dict[str, Any]:
    """Return the arguments of a call; those that are no JSON object stand in one."""
    try:
        arguments = json.loads(text or "{}")
    except (ValueError, RecursionError):  # a model may nest without end
        return {"unreadable": text}
    return arguments if isinstance(arguments, dict) else {"value": arguments}


def response_of(output: FunctionCallOutput) -> dict[str, str]:
    """Return the `response` of a `functionResponse`."""
    return {"error" if output.is_error else "output": output.output}
