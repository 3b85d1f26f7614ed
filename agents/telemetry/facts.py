"""Facts: agent, pipeline and options of a session as attributes of its span. Numbers stay numbers; none is content."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from vivavoce.agents.agent import Agent
from vivavoce.pipelines.pipeline import Pipeline


def session_facts(agent: Agent, pipeline: Pipeline, options: object, room: str) -> Mapping[str, Any]:
    """Return the attributes; the instructions, which are content, by the name of the conventions."""
    server_tools = {tool.name for tool in agent.server_tools}
    return {
        "gen_ai.agent.id": agent.id,
        "gen_ai.agent.name": type(agent).__name__,
        "gen_ai.system_instructions": agent.instructions,
        "vivavoce.pipeline": type(pipeline).__name__,
        "vivavoce.room": room,
        "vivavoce.tools.functions": [tool.name for tool in agent.tools if tool.name not in server_tools],
        "vivavoce.tools.mcp": sorted(server_tools),
        **{f"vivavoce.options.{name}": value for name, value in _numbers(options)},
    }


def _numbers(options: object, before: str = "") -> Iterator[tuple[str, bool | int | float]]:
    """Yield the numbers and switches among dataclass fields, nested ones by their path."""
    if not is_dataclass(options):
        return
    for field in fields(options):
        value = getattr(options, field.name)
        if isinstance(value, bool | int | float):
            yield before + field.name, value
        else:
            yield from _numbers(value, f"{before}{field.name}.")
