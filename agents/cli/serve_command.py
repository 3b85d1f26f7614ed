"""The command `vivavoce serve`: answers telephone calls over a vendor's media streams."""

from __future__ import annotations

import logging
import signal
from collections.abc import AsyncIterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import anyio
import typer

from vivavoce.agents.cli.running import configure_logging, run

if TYPE_CHECKING:
    from vivavoce.agents.cli.app_file import App
    from vivavoce.agents.cli.serve.calls import Calls

logger = logging.getLogger(__name__)


def serve(
    file: Annotated[Path, typer.Argument(help="A Python file with a Worker, an entrypoint, or an Agent.")],
    wire: Annotated[str, typer.Option(help="Who carries the calls: twilio, telnyx, plivo, vonage or raw.")],
    public_url: Annotated[str, typer.Option(help="The https address under which the vendor reaches this server.")],
    host: Annotated[str, typer.Option(help="Address to listen at; 0.0.0.0 for all.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen at.")] = 8080,
    max_calls: Annotated[int, typer.Option(min=1, max=1000, help="Number of calls at a time.")] = 50,
    health_port: Annotated[int | None, typer.Option(help="Answer health checks on this port.")] = None,
    log_format: Annotated[str | None, typer.Option(help="Format of the log: text or json; else LOG_FORMAT.")] = None,
) -> None:
    """Answer telephone calls: the vendor asks at PUBLIC_URL/WIRE and opens a WebSocket for each call.

    The vendor's requests are checked by a secret from the environment: TWILIO_AUTH_TOKEN, TELNYX_PUBLIC_KEY,
    PLIVO_AUTH_TOKEN, VONAGE_SIGNATURE_SECRET, or VIVAVOCE_STREAM_KEY for programs of your own (raw).

    SIGTERM or Ctrl-C: no more calls are taken, and the running ones may end; a second one ends them.
    """
    from vivavoce.agents.cli.app_file import load_app

    configure_logging(logging.INFO, log_format)
    app = load_app(file, has_default=True)
    if app.note:
        logger.info(app.note)
    work = partial(_serve, app, wire, public_url, host, port, max_calls, health_port)
    raise typer.Exit(run(work))


async def _serve(
    app: App, wire: str, public_url: str, host: str, port: int, max_calls: int, health_port: int | None
) -> int:
    from vivavoce.agents.cli.serve.calls import Calls
    from vivavoce.agents.cli.serve.server import CallServer
    from vivavoce.agents.telemetry.destination import telemetry_for
    from vivavoce.agents.telemetry.metrics.figures import figures_of
    from vivavoce.agents.transports.media_stream.admission import Admission
    from vivavoce.agents.transports.media_stream.vendors import webhook_of
    from vivavoce.agents.worker.health import serve_health
    from vivavoce.agents.worker.metrics import metric_reader
    from vivavoce.agents.worker.worker import shared_parts
    from vivavoce.pipelines.core.clock import LoopClock

    clock, options = LoopClock(), app.worker.options
    webhook = webhook_of(wire, clock.wall)
    reader = metric_reader(options)
    telemetry, is_own = telemetry_for(options.telemetry, reader)
    with ExitStack() as until_closed:
        try:
            await shared_parts(app.worker).warm()
            # To the very end: a signal that comes while all is being closed must not kill the process.
            signals = until_closed.enter_context(anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM))
            async with anyio.create_task_group() as tasks:
                calls = Calls(app.worker, clock, limit=max_calls, tasks=tasks, telemetry=telemetry)
                server = CallServer(webhook, calls, Admission(clock.now), public_url)
                if health_port is not None:
                    figures = (lambda: ()) if reader is None else partial(figures_of, reader)
                    await tasks.start(serve_health, calls.state, figures, options.health_host, health_port)
                at = await tasks.start(server.run, host, port)
                logger.info("listening at %s:%d; set %s at %s", host, at, server.webhook_url, wire)
                await _until_drained(calls, signals, options.drain_timeout)
                tasks.cancel_scope.cancel()
        finally:
            with anyio.CancelScope(shield=True):
                await shared_parts(app.worker).aclose()
                if telemetry is not None and is_own:
                    await telemetry.aclose()
    return 0


async def _until_drained(calls: Calls, signals: AsyncIterator[signal.Signals], limit: float) -> None:
    """Wait for the signal to end, then for the calls, at most `limit` seconds; a second signal ends them."""
    await anext(signals)
    calls.drain()
    logger.info("no more calls are taken; %d are running, and another signal ends them", calls.count)
    async with anyio.create_task_group() as tasks:
        with anyio.move_on_after(limit):

            async def hurry() -> None:
                async for _ in signals:
                    calls.stop("the server was stopped", is_forced=True)

            tasks.start_soon(hurry)
            await calls.wait_over()
        calls.stop("the server ends")
        await calls.wait_over()
        tasks.cancel_scope.cancel()
