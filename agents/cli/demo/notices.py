"""The demo's texts before and after its call: the room's address, tokens, the table of turns, checks, files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import TYPE_CHECKING

from rich.markup import escape
from rich.table import Table
from rich.text import Text

from vivavoce.agents.cli.live.view import LABEL_WIDTH

if TYPE_CHECKING:
    from rich.console import Console

    from vivavoce.agents.caller.measuring import Check
    from vivavoce.agents.cli.demo.place import Place
    from vivavoce.agents.cli.demo.speech import Speech
    from vivavoce.agents.records import TurnRecord


def show_place(console: Console, place: Place) -> None:
    """Print the room's address."""
    kind = "embedded development room" if place.is_embedded else "LiveKit server"
    _line(console, "room", f"{escape(place.url)}   [dim]{kind}[/dim]")
    if place.is_embedded:
        _line(console, "key", place.api_key)
        _line(console, "secret", place.api_secret)


def show_speech(console: Console, speech: Speech, seed: int | None) -> None:
    """Print the parts that speak and hear.

    Args:
        seed: Of the caller's phrases; None where it does not call.
    """
    hears = "any English sentence" if speech.is_free else "the sentences of a grammar"
    if speech.missing:
        hears += f"; not installed here: {' and '.join(speech.missing)}"
    _line(console, "speech", f"{speech.voice} speaks, {speech.ears} hears   [dim]{hears}[/dim]")
    if speech.is_free and seed is not None:
        _line(console, "seed", f"{seed}   [dim]of the caller's phrases; --seed {seed} has it say the same again[/dim]")


def show_registered(console: Console, agent_name: str) -> None:
    """Print that the server has registered the worker."""
    _line(console, "worker", f"registered{f' as [bold]{agent_name}[/bold]' if agent_name else ' for every new room'}")


def show_token(console: Console, room: str, token: str) -> None:
    """Print a token with which another client can join."""
    _line(console, "token", f"[dim]joins room {room}; for any LiveKit client[/dim]")
    console.print(token, soft_wrap=True, markup=False, highlight=False)


def show_page(console: Console, url: str) -> None:
    """Print the address of the browser page on the embedded room."""
    _line(console, "page", f"{escape(url.replace('ws', 'http', 1))}/   [dim]open it in a browser and talk[/dim]")


def show_waiting(console: Console) -> None:
    """Print that the demo now waits."""
    console.print("\nThe room stays open for callers with the token above. [bold]Ctrl-C[/bold] ends it.")
    console.print("Next: [bold]vivavoce new NAME[/bold] writes an agent of your own, and the commands to talk to it.")


def show_summary(console: Console, turns: Sequence[TurnRecord], waits: Sequence[float | None]) -> None:
    """Print the turns, one line each.

    Args:
        waits: Times from the caller's own recording, for each answered turn.
    """
    table = Table(title="turns", title_justify="left", title_style="bold", header_style="dim", box=None)
    for heading in ("caller said", "agent was heard to say", "outcome"):
        table.add_column(heading, overflow="fold", ratio=None if heading == "outcome" else 1)
    for heading in ("latency", "heard after", "tools"):
        table.add_column(heading, justify="right", no_wrap=True)
    left = list(waits)
    for record in turns:
        is_answered = record.e2e_latency is not None
        wait = left.pop(0) if is_answered and left else None
        table.add_row(
            Text(record.user_text or f"({record.kind})"),
            Text(_shorten(record.heard_text)),
            record.outcome,
            _seconds(record.e2e_latency),
            _seconds(wait),
            ", ".join(tool.name for tool in record.tools),
        )
    latencies = [record.e2e_latency for record in turns if record.e2e_latency is not None]
    if latencies:
        table.caption, table.caption_justify = f"median latency {median(latencies):.2f} s", "left"
    console.print()
    console.print(table)


def show_checks(console: Console, checks: Sequence[Check]) -> None:
    """Print the values measured on the recordings."""
    console.print("\n[bold]measured on the recordings[/bold]")
    for check in checks:
        mark = "[green]✓[/green]" if check.is_met else "[bold red]✗[/bold red]"
        console.print(f" {mark} {escape(check.name)}: [bold]{escape(check.found)}[/bold]", highlight=False)
    if not all(check.is_met for check in checks):
        console.print(" A machine that is busy with other work fails these checks: try again when it is quiet.")


def show_files(console: Console, paths: Mapping[str, str]) -> None:
    """Print the paths of the written files."""
    console.print()
    for what, path in paths.items():
        _line(console, what, escape(path))


def _line(console: Console, label: str, text: str) -> None:
    console.print(f"[bold]{label:<{LABEL_WIDTH}}[/bold]{text}", highlight=False, soft_wrap=True)


def _seconds(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds:.2f} s"


def _shorten(text: str, limit: int = 60) -> str:
    return text if len(text) <= limit else f"{text[: limit - 1].rstrip()}…"
