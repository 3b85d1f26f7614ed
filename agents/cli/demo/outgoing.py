"""Places the demo's call: the simulated caller in a process of its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from vivavoce.agents.caller.process import run_caller
from vivavoce.agents.cli.demo.caller import CallRequest
from vivavoce.agents.cli.demo.checks import CallResult

CALLER = "vivavoce.agents.cli.demo.caller"


async def place_call(request: CallRequest, report: Callable[[str, dict[str, Any]], None]) -> CallResult:
    """Run the simulated caller to the end of its call.

    Args:
        report: Called with each of its events, by name.
    Raises:
        VoiceError: The call could not be placed, or the process died.
    """
    return CallResult.from_json(await run_caller(CALLER, asdict(request), report))
