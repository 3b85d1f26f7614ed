"""Traces and metrics of a call to an OpenTelemetry collector.

    docker run --rm -p 4318:4318 otel/opentelemetry-collector    # or any OTLP endpoint: Jaeger, Phoenix, a vendor's
    OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4318 python examples/traces.py

Without the variable it goes to OTLP's own default, http://localhost:4318. The call here is scripted, so it needs
neither keys nor a room; a session in a worker's job reports in the same way, within a span of its job.
"""

from __future__ import annotations

import anyio

from vivavoce.agents import Agent, SessionOptions, function_tool
from vivavoce.agents.events import TurnCompleted
from vivavoce.agents.telemetry import Telemetry, TelemetryOptions
from vivavoce.agents.testing import ScriptedLLM, ScriptedTTS, SessionHarness
from vivavoce.pipelines.llm.tools import ToolCall


class Host(Agent):
    """Books tables."""

    @function_tool
    async def free_tables(self, day: str) -> int:
        """How many tables are free on a day."""
        # Spans made in here (by an HTTP client, a database) are children of the tool's span, and are sent too if their
        # instrumentation was given telemetry.tracer_provider.
        await anyio.sleep(0.2)
        return 3


KEPT_BACK = {"gen_ai.tool.call.arguments", "gen_ai.input.messages", "gen_ai.output.messages"}


def without_days(name: str, value: str | bool | float) -> str | bool | float | None:
    """Redact: arguments of tools stay here, also those in the model's requests; everything else may go."""
    return None if name in KEPT_BACK else value


async def main() -> None:
    """Have one call and print its exported telemetry."""
    # One Telemetry for all sessions of a process; in a worker: WorkerOptions(telemetry=TelemetryOptions(...)).
    telemetry = Telemetry(TelemetryOptions(service_name="tables", attributes={"tenant": "bistro"}, redact=without_days))
    asks = ToolCall(call_id="call_1", name="free_tables", arguments='{"day": "Friday"}')
    llm = ScriptedLLM([0.2, asks], [0.2, "Three tables are free on Friday."])
    harness = SessionHarness(
        Host("Be brief."), llm, tts=ScriptedTTS(), options=SessionOptions(telemetry=telemetry, capture_content=True)
    )
    harness.caller.says("is there a table on friday", 0.5, 1.5)
    async with harness:
        turn = (await harness.next(TurnCompleted)).record
    print(f"{harness.session.id}: {turn.outcome}, first word after {turn.e2e_latency:.2f} s")
    await telemetry.aclose()  # waits TelemetryOptions(flush_timeout=...) at most, 1 s unless you say otherwise
    print(f"spans delivered: {telemetry.delivered_spans}, lost: {telemetry.dropped_spans}")


if __name__ == "__main__":
    anyio.run(main)
