"""The timeline: both sides of the call as lanes of one SVG, with waveforms, states, latencies, tools and cuts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from vivavoce.agents.records import SessionReport, TurnRecord
from vivavoce.agents.reports.figures import in_order
from vivavoce.agents.reports.markup import Child, Element, clock, el, milliseconds, words
from vivavoce.agents.reports.peaks import WINDOW, Peaks

Who = Literal["user", "agent"]

PIXELS_A_SECOND = 34.0
MAX_WIDTH = 24_000
MIN_WIDTH = 1040
"""A short call fills the page of a desktop, too."""
TICKS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600)
"""Seconds that two labels of the axis may be apart."""
LANE = 34
"""Half of a lane's height."""
CALLER, GAP, TOOLS, AGENT, EVENTS = 74, 126, 144, 208, 288
"""Positions of the rows: middles of the lanes, tops of the others."""
HEIGHT, HEIGHT_WITHOUT_EVENTS = 300, 276


@dataclass(frozen=True, slots=True)
class Scale:
    """Seconds to pixels."""

    seconds: float
    pixels: float
    height: int = HEIGHT
    """Height of the whole, in pixels."""

    def x(self, at: float) -> float:
        """Return the position of a moment."""
        return round(at * self.pixels, 2)

    @property
    def width(self) -> float:
        """Width of the whole, in pixels."""
        return round(self.seconds * self.pixels, 2)


def length(report: SessionReport) -> float:
    """Return the seconds from the session's start to the last moment in the report."""
    ends = [report.seconds, *(turn.ended_at for turn in report.turns), *(state.at for state in report.states)]
    return max(*ends, 1.0) if len(ends) > 1 else max(report.seconds, 1.0)


def timeline(report: SessionReport, peaks: Peaks | None) -> Element:
    """Return the section, which scrolls sideways."""
    seconds = length(report) + 0.5
    pixels = min(PIXELS_A_SECOND, MAX_WIDTH / seconds)
    turns, moments = in_order(report.turns), _moments(report)
    height = HEIGHT if moments else HEIGHT_WITHOUT_EVENTS
    scale = Scale(seconds, max(pixels, MIN_WIDTH / seconds), height)
    drawing = el(
        "svg",
        _hatch(),
        *_axis(scale),
        *_states(report, scale),
        *([] if peaks is None else _waves(peaks, scale)),
        *_interruptions(turns, scale),
        *_said(turns, scale),
        *_gaps(turns, scale),
        *_tools(turns, scale),
        *_events(moments, scale),
        el("line", id="playhead", x1=0, x2=0, y1=22, y2=height, class_="playhead", visibility="hidden"),
        viewBox=f"0 0 {scale.width} {height}",
        width=scale.width,
        height=height,
        role="group",
        aria_label=f"Timeline of the call, {clock(report.seconds)}",
        data_pixels=round(scale.pixels, 4),
        id="timeline-drawing",
    )
    rows = [("caller", CALLER), ("latency", GAP + 7), ("tools", TOOLS + 8), ("agent", AGENT)]
    if moments:
        rows.append(("events", EVENTS))
    labels = el("div", *(el("span", name, style=f"top:{y}px") for name, y in rows), class_="rows", aria_hidden="true")
    scroller = el("div", drawing, class_="scroll", tabindex="0", role="region", aria_label="Timeline, scrolls sideways")
    is_wide = scale.width > MIN_WIDTH + 1
    heading = el("h2", "Timeline", el("small", " scrolls sideways", class_="wide" if is_wide else "narrow"))
    return el("section", heading, el("div", labels, scroller, class_="timeline"), _key(peaks), id="timeline")


def _key(peaks: Peaks | None) -> Element:
    entries = [("k-user", "caller speaks"), ("k-agent", "agent speaks"), ("k-think", "agent thinks")]
    entries += [("k-gap", "wait for the answer"), ("k-tool", "tool"), ("k-cut", "interrupted"), ("k-false", "paused")]
    entries += [("k-lost", "made, never heard")]
    note = "" if peaks is not None else " There is no recording: lanes show the states."
    return el("p", *(el("span", el("i", class_=f"swatch {name}"), text) for name, text in entries), note, class_="key")


def _hatch() -> Element:
    line = el("path", d="M0,6 L6,0", class_="hatch")
    return el("defs", el("pattern", line, id="lost", width=6, height=6, patternUnits="userSpaceOnUse"))


def _axis(scale: Scale) -> Iterator[Element]:
    step = next((tick for tick in TICKS if tick * scale.pixels >= 70), TICKS[-1])
    for at in range(0, int(scale.seconds) + 1, step):
        yield el("line", x1=scale.x(at), x2=scale.x(at), y1=18, y2=scale.height, class_="grid")
        yield el("text", f"{at // 60}:{at % 60:02d}", x=scale.x(at) + 3, y=14, class_="tick")


def _intervals(report: SessionReport, who: Who) -> Iterator[tuple[str, float, float]]:
    changes = [state for state in report.states if state.who == who]
    ends = [state.at for state in changes[1:]] + [length(report)]
    for change, end in zip(changes, ends, strict=False):
        if end > change.at:
            yield change.state, change.at, end


def _states(report: SessionReport, scale: Scale) -> Iterator[Element]:
    lanes: tuple[tuple[Who, int], ...] = (("user", CALLER), ("agent", AGENT))
    for who, middle in lanes:
        yield el("line", x1=0, x2=scale.width, y1=middle, y2=middle, class_="silence")
        for state, start, end in _intervals(report, who):
            if state not in ("speaking", "thinking", "away"):
                continue
            name = f"{'caller' if who == 'user' else 'agent'} {state}"
            title = el("title", f"{name}, {clock(start)} to {clock(end)}")
            half = LANE if state == "speaking" else 5
            yield el(
                "rect",
                title,
                x=scale.x(start),
                y=middle - half,
                width=max(1.0, scale.x(end) - scale.x(start)),
                height=2 * half,
                rx=4,
                class_=f"state {who} {state}",
            )


def _waves(peaks: Peaks, scale: Scale) -> Iterator[Element]:
    for values, middle, who in ((peaks.caller, CALLER, "user"), (peaks.agent, AGENT, "agent")):
        together = max(1, round(1.0 / (WINDOW * scale.pixels)))  # at most one value a pixel
        loudest = [max(values[at : at + together]) for at in range(0, len(values), together)]
        if not any(loudest):
            continue
        top = max(0.25, *loudest)
        points = [
            (scale.x(peaks.offset + (number + 0.5) * together * WINDOW), LANE * value / top)
            for number, value in enumerate(loudest)
        ]
        upper = " ".join(f"{x:g},{middle - y:.1f}" for x, y in points)
        lower = " ".join(f"{x:g},{middle + y:.1f}" for x, y in reversed(points))
        yield el("polygon", points=f"{upper} {lower}", class_=f"wave {who}")


def _said(turns: Sequence[TurnRecord], scale: Scale) -> Iterator[Element]:
    """The texts, each up to the next one of its side, and the texts that were made and never heard."""
    asked = [turn for turn in turns if turn.user_started_at is not None]
    for turn, until in zip(asked, [*(turn.user_started_at for turn in asked[1:]), scale.seconds], strict=False):
        if turn.user_text and turn.user_started_at is not None and until is not None:
            yield _words(turn.user_text, turn.user_started_at, until, "user", scale)
    heard = [turn for turn in turns if turn.first_audio_at is not None]
    for turn, until in zip(heard, [*(turn.first_audio_at for turn in heard[1:]), scale.seconds], strict=False):
        assert turn.first_audio_at is not None
        assert until is not None
        if turn.heard_text:
            yield _words(turn.heard_text, turn.first_audio_at, until, "agent", scale)
        stops = [each.stopped_at for each in turn.interruptions if each.stopped_at is not None]
        lost = turn.generated_seconds - turn.played_seconds
        if lost > 0.05 and stops and turn.outcome != "completed":
            yield el(
                "rect",
                el("title", f"{lost:.1f} s were made and never heard"),
                x=scale.x(stops[-1]),
                y=AGENT - LANE,
                width=max(1.0, scale.x(min(lost, until - stops[-1]))),
                height=2 * LANE,
                rx=4,
                class_="lost",
                fill="url(#lost)",
            )


def _words(text: str, start: float, until: float, who: Who, scale: Scale) -> Element:
    width = max(8.0, scale.x(until) - scale.x(start) - 6)
    top, height = (CALLER - LANE - 17, 17) if who == "user" else (AGENT + LANE + 1, 31)
    label = el("div", text, class_=f"words {who}")
    return el("g", el("title", text), el("foreignObject", label, x=scale.x(start), y=top, width=width, height=height))


def _gaps(turns: Sequence[TurnRecord], scale: Scale) -> Iterator[Element]:
    for number, turn in enumerate(turns, start=1):
        if turn.e2e_latency is None:
            continue
        start = turn.started_at
        bar = el(
            "rect", x=scale.x(start), y=GAP, width=max(1.0, scale.x(turn.e2e_latency)), height=14, rx=3, class_="gap"
        )
        label = el(
            "text", milliseconds(turn.e2e_latency), x=scale.x(start + turn.e2e_latency) + 4, y=GAP + 11, class_="ms"
        )
        title = el(
            "title",
            f"turn {number}: {milliseconds(turn.e2e_latency)} from the caller's last sound to the agent's first",
        )
        yield el("a", title, bar, label, href=f"#turn-{number}")


def _tools(turns: Sequence[TurnRecord], scale: Scale) -> Iterator[Element]:
    for number, turn in enumerate(turns, start=1):
        for tool in turn.tools:
            failed = " failed" if tool.is_error else ""
            title = el("title", f"{tool.name}{failed}, {milliseconds(tool.seconds)}")
            width = max(4.0, scale.x(tool.seconds))
            bar = el("rect", x=scale.x(tool.started_at), y=TOOLS, width=width, height=14, rx=3, class_=f"tool{failed}")
            label = el("text", tool.name + failed, x=scale.x(tool.started_at) + width + 4, y=TOOLS + 11, class_="ms")
            yield el("a", title, bar, label, href=f"#turn-{number}")


def _interruptions(turns: Sequence[TurnRecord], scale: Scale) -> Iterator[Element]:
    for turn in turns:
        for each in turn.interruptions:
            if each.stopped_at is None and each.paused_at is None:
                continue
            start = each.candidate_at if each.candidate_at is not None else each.decided_at
            stop = each.stopped_at if each.stopped_at is not None else each.decided_at
            kind = "cut" if each.decision == "interrupted" else "false"
            said = "interrupted" if kind == "cut" else "paused, then went on"
            title = el("title", f"{said} (by {words(each.by)}), silent {milliseconds(stop - start)} after it began")
            x, width = scale.x(min(start, stop)), max(2.0, abs(scale.x(stop) - scale.x(start)))
            band = el("rect", x=x, y=CALLER - LANE, width=width, height=AGENT + LANE - (CALLER - LANE))
            mark = el("path", d=f"M{scale.x(stop)},{CALLER - LANE} V{AGENT + LANE}", class_="edge")
            yield el("g", title, band, mark, class_=f"interruption {kind}")


def _moments(report: SessionReport) -> list[tuple[float, str, str]]:
    """Return errors, marks and retries: (time, style, text)."""
    moments: list[tuple[float, str, str]] = [
        (error.at, "error", f"{error.source}: {error.error}") for error in report.errors
    ]
    moments += [(mark.at, "mark", " ".join(filter(None, (words(mark.name), mark.detail)))) for mark in report.marks]
    moments += [(retry.at, "mark", f"retry of {retry.provider}") for turn in report.turns for retry in turn.retries]
    return sorted(moments)


def _events(moments: Sequence[tuple[float, str, str]], scale: Scale) -> Iterator[Element]:
    for at, kind, text in moments:
        x = scale.x(at)
        shape = f"M{x},{EVENTS - 6} l6,11 h-12 z" if kind == "error" else f"M{x},{EVENTS - 5} l5,5 l-5,5 l-5,-5 z"
        parts: list[Child] = [el("title", f"{clock(at)}: {text}"), el("path", d=shape)]
        yield el("g", *parts, class_=f"moment {kind}")
