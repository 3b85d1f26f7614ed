"""The verdict on a scripted call: compares its recording and the heard words with the script's expectations."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from vivavoce.agents.caller.line import EndedBy
from vivavoce.agents.caller.measuring import (
    Check,
    LineSpan,
    first_sound,
    gaps,
    left_after,
    silence_after,
    silencing,
)
from vivavoce.agents.caller.script import CallScript, Expectation
from vivavoce.agents.turn_records.percentiles import percentile
from vivavoce.pipelines.media.frame import AudioFrame


@dataclass(frozen=True, slots=True, kw_only=True)
class LineReport:
    """One line of the caller, or the greeting before the first one.

    Args:
        start, end: Seconds of the recording between which the line was played.
        latency: Seconds from the caller's last sound to the agent's first one.
        silenced: Seconds from a barge-in's onset to the agent's silence.
    """

    line: str
    start: float
    end: float
    is_barge_in: bool = False
    heard: str = ""
    latency: float | None = None
    silenced: float | None = None
    checks: tuple[Check, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CallReport:
    """One call.

    Args:
        problem: Why it ended early.
        ended_by: None if it could not be placed.
    """

    room: str
    recording: str
    lines: tuple[LineReport, ...] = ()
    problem: str = ""
    ended_by: EndedBy | None = None

    @property
    def has_passed(self) -> bool:
        """Whether the script was played to its end and every expectation met."""
        return not self.problem and all(check.is_met for line in self.lines for check in line.checks)

    @property
    def failures(self) -> list[str]:
        """The unmet requirements, as text."""
        found = [
            f"{line.line}: {check.name}: {check.found}"
            for line in self.lines
            for check in line.checks
            if not check.is_met
        ]
        return [*found, *([self.problem] if self.problem else [])]

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        return {"passed": self.has_passed, **asdict(self)}


def judge(script: CallScript, result: Mapping[str, Any], recording: AudioFrame, room: str, path: str) -> CallReport:
    """Measure a call and compare it with its script.

    Args:
        result: The result of the caller's process.
        recording: The call in stereo: caller left, agent right.
        room, path: For the report.
    """
    spans = [LineSpan(line["start"], line["end"]) for line in result["lines"]]
    lines = []
    if script.greeting:
        lines.append(_greeting(script.greeting_expect, result["greeting"], recording))
    waits = gaps(recording, spans)
    for index, (step, span) in enumerate(zip(script.steps, spans, strict=False)):
        is_barge_in = step.barge_in_after is not None
        until = spans[index + 1].start if index + 1 < len(spans) else result["samples"]
        silenced = silencing(recording, span) if is_barge_in else None
        heard = result["lines"][index]["heard"]
        checks = _checks(step.expect, heard, waits[index])
        if step.expect.silent_within is not None:
            checks.append(_silenced(step.expect.silent_within, silenced))
        if step.expect.silent_for is not None:
            quiet = silence_after(recording, span, until)
            met = quiet >= step.expect.silent_for - 0.05
            checks.append(Check(f"silent for {step.expect.silent_for:g} s after the line", met, f"{quiet:.2f} s"))
        if step.expect.leaves_within is not None:
            stayed = left_after(recording, span, result["left_at"])
            checks.append(_left(step.expect.leaves_within, stayed))
        lines.append(
            LineReport(
                line=step.line,
                start=span.start / recording.sample_rate,
                end=span.end / recording.sample_rate,
                is_barge_in=is_barge_in,
                heard=heard,
                latency=waits[index],
                silenced=silenced,
                checks=tuple(checks),
            )
        )
    problem, ended_by = result["problem"], result["ended_by"]
    return CallReport(room=room, recording=path, lines=tuple(lines), problem=problem, ended_by=ended_by)


def summary(reports: Sequence[CallReport]) -> dict[str, Any]:
    """Return all calls as plain data, with the distribution of their latencies in seconds."""
    latencies = [line.latency for each in reports for line in each.lines if line.end and line.latency is not None]
    silenced = [line.silenced for each in reports for line in each.lines if line.silenced is not None]
    return {
        "passed": bool(reports) and all(each.has_passed for each in reports),
        "calls_placed": len(reports),
        "calls_passed": sum(each.has_passed for each in reports),
        "latency": _spread(latencies),
        "silenced": _spread(silenced),
        "calls": [each.to_json() for each in reports],
    }


def _spread(values: Sequence[float]) -> dict[str, float] | None:
    if not values:
        return None
    return {"median": percentile(values, 50), "p95": percentile(values, 95), "max": max(values)}


def _greeting(expect: Expectation, heard: str, recording: AudioFrame) -> LineReport:
    latency = first_sound(recording)
    checks = tuple(_checks(expect, heard, latency))
    return LineReport(line="(greeting)", start=0.0, end=0.0, heard=heard, latency=latency, checks=checks)


def _checks(expect: Expectation, heard: str, latency: float | None) -> list[Check]:
    said = _words(heard)
    found = heard or "nothing understood"
    checks = [Check(f"says {wanted!r}", _holds(said, wanted), found) for wanted in expect.words]
    checks += [Check(f"does not say {bad!r}", not _holds(said, bad), found) for bad in expect.not_words]
    if expect.within is not None:
        met = latency is not None and latency <= expect.within
        checks.append(
            Check(f"answers within {expect.within:g} s", met, "no answer" if latency is None else f"{latency:.2f} s")
        )
    return checks


def _silenced(limit: float, silenced: float | None) -> Check:
    met = silenced is not None and silenced <= limit
    found = "the agent was not speaking" if silenced is None else f"{silenced:.2f} s"
    return Check(f"silent within {limit:g} s of the barge-in", met, found)


def _left(limit: float, stayed: float | None) -> Check:
    met = stayed is not None and stayed <= limit
    return Check(f"leaves within {limit:g} s", met, "it stayed" if stayed is None else f"{stayed:.2f} s")


def _words(text: str) -> list[str]:
    return re.findall(r"\w+(?:['’]\w+)*", text.lower())


def _holds(said: Sequence[str], wanted: str) -> bool:
    """Whether the wanted words occur in the said ones, side by side; of several, divided by "|", those of one."""
    for words in map(_words, wanted.split("|")):
        size = len(words)
        if any(list(said[at : at + size]) == words for at in range(len(said) - size + 1)):
            return True
    return False
