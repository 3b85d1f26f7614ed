"""View: shows a call in the terminal while it runs; plain lines if there is no terminal."""

from __future__ import annotations

from itertools import cycle
from typing import TYPE_CHECKING

from rich.console import Console, RenderableType
from rich.live import Live
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from vivavoce.agents.cli.live.groups import Groups
from vivavoce.agents.states import AgentState, CloseReason, UserState
from vivavoce.pipelines.core.words import shortened

if TYPE_CHECKING:
    from vivavoce.agents.records import StageRecord, TurnRecord

LABEL_WIDTH = 8
BAR_SECONDS = 0.025
"""One cell of a waterfall."""
SHOWN_FROM = 0.005
"""Seconds from which a stage is named; the others are summed up."""

METER_CELLS = 10
METER_DECIBELS = 6.0

OWNER_STYLES = {
    "config": "yellow",
    "provider": "cyan",
    "network": "magenta",
    "user_code": "green",
    "runtime": "blue",
}
WHO_STYLES = {"caller": "bold cyan", "agent": "bold green", "tool": "yellow"}
TOOL_TEXT = 500
"""Characters of a tool's arguments and of its result that are shown."""
GLYPHS = "█▓▒░"


class View:
    """Prints the events of a call; below them, on a terminal, the present speaker.

    Args:
        console: The console to print to.
        is_live: Whether to show the present speaker if the terminal can.
    """

    def __init__(self, console: Console, *, is_live: bool = True) -> None:
        self._console = console
        self._is_live = is_live and console.is_terminal
        self._live = Live(Text(), console=console, auto_refresh=False, transient=True)
        self._user = UserState.IDLE
        self._agent = AgentState.IDLE
        self._interim = ""
        self._was_heard = False
        self._level: float | None = None
        self._has_level = False
        self._why = ""

    def __enter__(self) -> View:
        return self

    def __exit__(self, *exc: object) -> None:
        self.hide()

    def note(self, text: str) -> None:
        """Print a text without a speaker."""
        self._print(Text(text, style="dim"))

    def problem(self, text: str) -> None:
        """Print an error."""
        self._print(Text(text, style="bold red"))

    # --- the call

    def call_started(self, room: str) -> None:
        """A caller is in a room with the agent."""
        self.hide()
        self._user, self._agent, self._interim = UserState.IDLE, AgentState.IDLE, ""
        self._print(Text(), Rule(f"call in room {room}", align="left", style="dim"))
        if self._is_live:
            self._live.start()

    def ending(self, why: str) -> None:
        """The user of the command ends the calls; the first reason counts."""
        self._why = self._why or why

    def call_ended(self, reason: str) -> None:
        """The session is closed."""
        self.hide()
        self.note(f"call ended: {self._why if self._why and reason == CloseReason.JOB_ENDED else reason}")

    def hide(self) -> None:
        """Remove the live part from the screen."""
        if self._live.is_started:
            self._live.stop()

    def user_state(self, state: UserState) -> None:
        """The caller speaks, or not."""
        self._user = state
        self._refresh()

    def agent_state(self, state: AgentState) -> None:
        """The agent listens, thinks, speaks."""
        self._agent = state
        self._refresh()

    def level(self, decibels: float | None) -> None:
        """Show the microphone's level, in decibels of full scale; None: it is muted."""
        self._has_level, self._level = True, decibels
        self._refresh()

    def interim(self, text: str) -> None:
        """Show the present transcript of the caller's words."""
        self._interim = text
        self._refresh()

    def caller_said(self, text: str) -> None:
        """Show the caller's words."""
        self._interim = ""
        self._said("caller", text)
        self._refresh()

    def agent_said(self, text: str, *, interrupted: bool) -> None:
        """Show the agent's words that the caller has heard."""
        self._was_heard = True
        self._said("agent", text, " ✂ cut off" if interrupted else "")

    def barge_in(self) -> None:
        """The simulated caller begins to speak over the agent."""
        self._said("caller", "", "speaks over the agent …")

    def tool(self, name: str, arguments: str, output: str, *, is_error: bool) -> None:
        """A tool was called."""
        call, result = shortened(arguments, TOOL_TEXT), shortened(output, TOOL_TEXT)
        self._said("tool", f"{name}({call}) → {result}", " failed" if is_error else "")

    def turn(self, record: TurnRecord) -> None:
        """A turn is over: show the parts of its latency; and that it was cut, if no word of it was heard whole."""
        if record.interrupted and record.played_seconds > 0 and not self._was_heard:
            self._said("agent", "…", f" ✂ cut off after {record.played_seconds:.2f} s")
        self._was_heard = False
        if record.e2e_latency is not None:
            self._print(waterfall(record))
        elif record.outcome == "failed":
            self.problem(f"turn failed: {record.error}")

    # --- inside

    def _said(self, who: str, text: str, suffix: str = "") -> None:
        line = Table.grid()  # long text wraps under itself
        line.add_column(width=LABEL_WIDTH)
        line.add_column()
        line.add_row(Text(who, WHO_STYLES[who]), Text.assemble(text, (suffix, "italic dim")))
        self._print(line)

    def _print(self, *shown: RenderableType) -> None:
        for one in shown:
            self._console.print(one)

    def _refresh(self) -> None:
        if self._live.is_started:
            self._live.update(self._now(), refresh=True)

    def _now(self) -> Text:
        """Return the line that shows the present speaker."""
        user = ("● " if self._user is UserState.SPEAKING else "○ ") + f"caller {self._user.value}"
        agent = ("● " if self._agent is AgentState.SPEAKING else "○ ") + f"agent {self._agent.value}"
        line = Text(no_wrap=True, overflow="ellipsis")
        if self._has_level:
            line.append_text(meter(self._level))
        line.append(f"{user:<20}", WHO_STYLES["caller"] if self._user is UserState.SPEAKING else "dim")
        line.append(f"{agent:<20}", WHO_STYLES["agent"] if self._agent is AgentState.SPEAKING else "dim")
        return line.append(self._interim, "italic")


def meter(decibels: float | None) -> Text:
    """Return a level meter, a cell for each 6 dB up to full scale."""
    if decibels is None:
        return Text(f"{'muted':<{METER_CELLS}} ", "bold yellow")
    cells = max(0, min(METER_CELLS, round(METER_CELLS + decibels / METER_DECIBELS)))
    style = "bold red" if decibels > -METER_DECIBELS else "green"
    return Text.assemble(("▮" * cells, style), ("▯" * (METER_CELLS - cells), "dim"), " ")


def waterfall(record: TurnRecord) -> Groups:
    """Return a turn's latency, on one line if it fits: a bar, a cell for each 25 ms, and its stages in milliseconds."""
    line = Text.assemble((f"{record.e2e_latency or 0.0:.2f} s ", "bold"))
    bars = [(round(stage.seconds / BAR_SECONDS), OWNER_STYLES[stage.owner]) for stage in record.stages]
    for glyph, (cells, style) in zip(cycle(GLYPHS), ((n, style) for n, style in bars if n), strict=False):
        line.append(glyph * cells, style)
    groups = [line]
    for stage in record.stages:
        if stage.seconds >= SHOWN_FROM:
            figure = (f"{1000 * stage.seconds:.0f}", OWNER_STYLES[stage.owner])
            groups.append(Text.assemble((f"{_name(stage)} ", "dim"), figure))
    rest = sum(stage.seconds for stage in record.stages if stage.seconds < SHOWN_FROM)
    groups[-1].append(f" +{1000 * rest:.0f} ms" if rest >= 0.0005 else " ms", "dim")
    return Groups(groups, indent=LABEL_WIDTH)


_SHORT = {
    "vad_silence": "silence",
    "transcript_wait": "transcript",
    "end_of_turn_decision": "decision",
    "endpointing_wait": "endpointing",
    "model_first_token": "model",
    "first_sentence": "sentence",
    "tts_first_byte": "voice",
}


def _name(stage: StageRecord) -> str:
    return _SHORT.get(stage.name, stage.name)
