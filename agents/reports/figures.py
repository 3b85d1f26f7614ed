"""The figures of a call: latency percentiles, usage, errors, the close, and the session's parts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from vivavoce.agents.records import ErrorRecord, SessionReport, TurnRecord, UsageRecord
from vivavoce.agents.reports.markup import Child, Element, clock, el, milliseconds, table, words
from vivavoce.agents.turn_records.percentiles import percentile

PERCENTILES = (50, 90, 95, 99)


def in_order(turns: Sequence[TurnRecord]) -> list[TurnRecord]:
    """Return the turns by their beginning, the order in which the page counts them; a report has them by their end."""
    return sorted(turns, key=lambda turn: turn.started_at)


def summary(report: SessionReport) -> Element:
    """Return the most important numbers."""
    latencies = [turn.e2e_latency for turn in report.turns if turn.e2e_latency is not None]
    spoken = sum(turn.played_seconds > 0 or bool(turn.heard_text) for turn in report.turns)
    decisions = Counter(each.decision for turn in report.turns for each in turn.interruptions if each.stopped_at)
    tools = [tool for turn in report.turns for tool in turn.tools]
    failed = sum(tool.is_error for tool in tools)
    figures: list[tuple[str, str, str]] = [
        ("length", clock(report.seconds), ""),
        ("answered turns", str(len(latencies)), f"{spoken} with the agent's own speech"),
        ("median latency", milliseconds(percentile(latencies, 50)) if latencies else "–", "last sound to first sound"),
        ("95th percentile", milliseconds(percentile(latencies, 95)) if latencies else "–", ""),
        ("interruptions", str(decisions["interrupted"]), f"{decisions['resumed']} pauses for nothing"),
        ("tool calls", str(len(tools)), f"{failed} failed"),
        ("errors", str(len(report.errors) + report.errors_left_out), ""),
    ]
    if (budget := report.budget) is not None:
        limit = "no limit" if budget.cost_limit is None else f"limit {budget.cost_limit:g}"
        figures.append(("cost", f"{budget.cost:.4g}", limit))
    return el(
        "dl",
        *(
            el("div", el("dt", name), el("dd", value, el("small", note) if note else None))
            for name, value, note in figures
        ),
        class_="figures",
    )


def latency(report: SessionReport) -> Element | None:
    """Return the percentiles of the whole and of each stage; None if no turn was answered."""
    answered = [turn for turn in report.turns if turn.e2e_latency is not None]
    if not answered:
        return None
    columns: dict[str, list[float]] = {"end to end": [turn.e2e_latency or 0.0 for turn in answered]}
    columns |= {name: [] for name in _stage_order(answered)}
    owners: dict[str, str] = {}
    for turn in answered:
        for stage in turn.stages:
            columns[stage.name].append(stage.seconds)
            owners[stage.name] = stage.owner
    rows: list[list[Child]] = []
    for name, values in columns.items():
        shares = [milliseconds(percentile(values, share)) for share in PERCENTILES]
        rows.append([words(name), words(owners.get(name, "")), str(len(values)), *shares, milliseconds(max(values))])
    headings = ["stage", "owner", "turns", *(f"p{share}" for share in PERCENTILES), "worst"]
    told = (
        "A stage's numbers are of the turns that have it. p50 is the median; a percentile between two turns is "
        "interpolated linearly."
    )
    note = el("p", told, class_="note")
    shown = table(headings, rows, caption="Latency by stage", numbers=range(2, len(headings)))
    return el("section", el("h2", "Latency"), shown, note, id="latency")


def _stage_order(turns: Sequence[TurnRecord]) -> list[str]:
    """Return the stages of all turns in the order of a turn: a stage that other turns lack comes after its
    predecessor.
    """
    order: list[str] = []
    for turn in turns:
        place = 0
        for stage in turn.stages:
            if stage.name not in order:
                order.insert(place, stage.name)
            place = order.index(stage.name) + 1
    return order


def usage(report: SessionReport) -> Element:
    """Return the session's usage."""
    used = report.usage
    rows: list[list[Child]] = [
        ["model tokens in", f"{used.llm_input_tokens:,}"],
        ["of them cached", f"{used.llm_cached_tokens:,}"],
        ["model tokens out", f"{used.llm_output_tokens:,}"],
        *_parts_of_tokens(used),
        ["characters spoken", f"{used.tts_characters:,}"],
        ["speech made", f"{used.tts_audio_seconds:.1f} s"],
        ["speech recognised", f"{used.stt_audio_seconds:.1f} s"],
    ]
    shown = table(["what", "how much"], rows, caption="Of the whole session", numbers=(1,))
    return el("section", el("h2", "Usage"), shown, id="usage")


def _parts_of_tokens(used: UsageRecord) -> list[list[Child]]:
    """Return the rows of tokens that a cache took in, of estimated and embedded ones, and of a model of audio."""
    rows: list[list[Child]] = []
    if used.llm_cache_write_tokens:
        rows.append(["taken into the cache", f"{used.llm_cache_write_tokens:,}"])
    if used.llm_estimated_tokens:
        rows.append(["estimated of both", f"{used.llm_estimated_tokens:,}"])
    if used.embedding_tokens:
        rows.append(["tokens embedded", f"{used.embedding_tokens:,}"])
    if used.llm_input_audio_tokens or used.llm_output_audio_tokens:
        rows.append(["audio tokens in", f"{used.llm_input_audio_tokens:,}"])
        rows.append(["audio tokens out", f"{used.llm_output_audio_tokens:,}"])
    return rows


def errors(report: SessionReport) -> Element:
    """Return the errors."""
    if not report.errors:
        return el("section", el("h2", "Errors"), el("p", "None."), id="errors")
    rows: list[list[Child]] = [
        [clock(each.at), each.source, _times(each), "yes" if each.is_recovered else "no"] for each in report.errors
    ]
    more = f"{report.errors_left_out} more were not kept." if report.errors_left_out else ""
    shown = table(["when", "where", "what", "went on"], rows, caption="In order")
    return el("section", el("h2", "Errors"), shown, el("p", more) if more else None, id="errors")


def _times(error: ErrorRecord) -> str:
    return error.error if error.times == 1 else f"{error.error} ({error.times:,} times)"


def close(report: SessionReport) -> Element:
    """Return how the session ended."""
    if report.close is None:
        return el("section", el("h2", "Close"), el("p", "The session was still running."), id="close")
    ended = report.close
    line = f"{words(ended.reason).capitalize()}, closed in {milliseconds(ended.seconds)}."
    problem = el("p", ended.error, class_="problem") if ended.error else None
    rows: list[list[Child]] = [[step.name, milliseconds(step.seconds), step.error or "–"] for step in ended.steps]
    steps = table(["step", "took", "problem"], rows, caption="Steps of the close", numbers=(1,)) if rows else None
    return el("section", el("h2", "Close"), el("p", line), problem, steps, id="close")


def session(report: SessionReport) -> Element:
    """Return the facts of the session: ids, times, agent, pipeline."""
    facts: list[tuple[str, str]] = [("session", report.session_id), ("room", report.room), ("job", report.job_id)]
    facts += [("agent", report.agent_id), ("pipeline", report.pipeline)]
    facts += [(part.kind, " ".join(filter(None, (part.provider, part.model)))) for part in report.components]
    facts += [
        ("recording", f"{each.path}, {each.seconds:.1f} s{f' ({each.error})' if each.error else ''}")
        for each in report.recordings
    ]
    traces = sorted({turn.trace_id for turn in report.turns if turn.trace_id})
    facts += [("trace", trace) for trace in traces]
    entries = [el("div", el("dt", name), el("dd", value)) for name, value in facts if value]
    return el("section", el("h2", "Session"), el("dl", *entries, class_="details"), id="session")
