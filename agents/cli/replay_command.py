"""The command `vivavoce replay`: a recorded conversation as a timeline, and a check that replay gives the same."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from vivavoce.agents.turn.trace.replay import Trace

NARROWEST = 140
"""Columns of the timeline if there is no terminal."""


def replay(
    path: Annotated[Path, typer.Argument(help="A trace: a file of VIVAVOCE_TRACE or trace_path.")],
    check: Annotated[bool, typer.Option("--check", help="Only replay; show no timeline.")] = False,
) -> None:
    """Show a recorded conversation, replay it through fresh machines, and check that they decide the same.

    To record one, set VIVAVOCE_TRACE to a folder and run the agent: each session writes a file there. It holds the
    user's words.

    If the session follows a conversation graph, its steps are shown and replayed too.

    Status 0: the same effects at the same times; 1: a difference, or the file cannot be replayed.
    """
    from rich.console import Console

    from vivavoce.agents.cli.timeline import difference_lines, timeline
    from vivavoce.agents.graphs.trace import replay_graph
    from vivavoce.agents.turn.trace.replay import replay as replayed

    trace = _read(path)
    console = Console(highlight=False, soft_wrap=False)
    if not console.is_terminal:
        console.width = max(console.width, NARROWEST)
    if not check:
        console.print(timeline(trace))
        console.print()
    for note in _notes(trace):
        console.print(note, style="yellow", markup=False)
    difference = replayed(trace) or (replay_graph(trace) if trace.graph else None)
    if difference is not None:
        for line in difference_lines(difference, trace):
            console.print(line)
        raise typer.Exit(1)
    count = len(trace.steps) + max(0, len(trace.graph) - 1)  # the first line of a graph has no input
    console.print(f"{trace.session_id}: {count} steps replayed, the effects are the same", markup=False)
    raise typer.Exit(1 if trace.damaged_line else 0)


def _read(path: Path) -> Trace:
    """Return the trace in that file.

    Raises:
        TraceError: It cannot be read, or is no trace.
    """
    from vivavoce.agents.turn.trace.replay import read_trace
    from vivavoce.pipelines.core.errors import TraceError

    if path.is_dir():
        inside = sorted(file.name for file in path.glob("*.jsonl"))
        remedy = f"give one of its files, such as '{path / inside[-1]}'" if inside else "it holds no trace"
        raise TraceError(f"'{path}' is a folder: {remedy}")
    try:
        with path.open(encoding="utf-8", errors="surrogatepass", newline="\n") as file:
            return read_trace(file)
    except FileNotFoundError as error:
        raise TraceError(f"'{path}' does not exist; give a trace") from error
    except OSError as error:
        raise TraceError(f"cannot read '{path}': {error.strerror}") from error
    except (TraceError, UnicodeDecodeError) as error:
        text = error if isinstance(error, TraceError) else "this is no trace: it is not text"
        raise TraceError(f"'{path}': {text}") from error


def _notes(trace: Trace) -> list[str]:
    """Return facts about the trace, beside its steps."""
    from importlib.metadata import PackageNotFoundError, version

    from vivavoce.agents.traces.trace_rules import rules_here

    notes = []
    try:
        ours = version("vivavoce")
    except PackageNotFoundError:  # run from its sources
        ours = ""
    if trace.version and ours and trace.version != ours:
        notes.append(f"Written by vivavoce {trace.version}, replayed by {ours}: it may decide otherwise on purpose.")
    elif trace.rules not in ("", rules_here()):
        notes.append("Written by machines of other code: they may have decided otherwise on purpose.")
    if trace.cut_line:
        notes.append(f"Line {trace.cut_line} is cut off: the process ended while it was written.")
    elif trace.damaged_line:
        notes.append(f"Line {trace.damaged_line} is damaged; the lines after it are not shown.")
    elif not trace.end:
        notes.append("The trace has no end: the session is still running, or its process was killed.")
    elif trace.end != "closed":
        notes.append(f"The trace ends before the session did: {trace.end}.")
    return notes
