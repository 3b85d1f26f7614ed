"""The turns: spoken and heard text, a waterfall of each latency, tools, interruptions, cost."""

from __future__ import annotations

from collections.abc import Iterator

from vivavoce.agents.records import InterruptionRecord, SessionReport, StageOwner, TurnRecord
from vivavoce.agents.reports.figures import in_order
from vivavoce.agents.reports.markup import Child, Element, clock, el, milliseconds, words
from vivavoce.pipelines.core.words import shortened

OWNERS: dict[StageOwner, str] = {
    "config": "your settings",
    "provider": "the provider",
    "network": "the network",
    "user_code": "your code",
    "runtime": "vivavoce",
}

TOOL_TEXT = 500
"""Characters of a tool's arguments and of its result that are shown; the report's JSON has all of them."""
NO_TEXT = "(the text was not kept: capture_content is off)"


def turns(report: SessionReport) -> Element:
    """Return the section."""
    longest = max((turn.e2e_latency or 0.0 for turn in report.turns), default=0.0)
    ordered = {turn.turn_id: (number, turn) for number, turn in enumerate(in_order(report.turns), start=1)}
    cards = [
        _card(number, turn, longest, _kind(turn, *ordered.get(turn.answers_turn_id, (0, None))))
        for number, turn in enumerate(in_order(report.turns), start=1)
    ]
    body: list[Child] = [el("ol", *cards, class_="turns")] if cards else [el("p", "Nothing was said.")]
    return el("section", el("h2", "Turns"), _owners(report), *body, id="turns")


def _owners(report: SessionReport) -> Element | None:
    """Return the meaning of the colours in the waterfalls: the part that could make a stage shorter."""
    owners = {stage.owner for turn in report.turns for stage in turn.stages if turn.e2e_latency is not None}
    shown = [(owner, meaning) for owner, meaning in OWNERS.items() if owner in owners]
    if not shown:
        return None
    entries = [el("span", el("i", class_=f"swatch {owner}"), meaning) for owner, meaning in shown]
    return el("p", "Who could shorten a wait: ", *entries, class_="key owners")


def _kind(turn: TurnRecord, number: int, answered: TurnRecord | None) -> str:
    """Return why the agent spoke, if no turn of the caller is the reason; `answered`: the turn that it answers late."""
    if answered is None:
        return {"turn": "", "say": "said by the application", "reply": "asked for by the application"}[turn.kind]
    if turn.tools or answered.tools:
        return f"answers turn {number} late: the results of its tools"
    return f"answers turn {number} in its stead"


def _card(number: int, turn: TurnRecord, longest: float, kind: str) -> Element:
    outcome = el("span", turn.outcome, class_=f"badge {turn.outcome}")
    latency = None if turn.e2e_latency is None else el("strong", milliseconds(turn.e2e_latency))
    head = el(
        "h3",
        el("span", f"{number}", class_="count"),
        el("span", clock(turn.started_at), class_="when"),
        el("span", kind, class_="kind") if kind else None,
        outcome,
        latency,
    )
    return el("li", head, *_talk(turn), _waterfall(turn, longest), *_notes(turn), id=f"turn-{number}", class_="turn")


def _talk(turn: TurnRecord) -> Iterator[Element]:
    if turn.kind == "turn":
        yield el("p", turn.user_text or NO_TEXT, class_="said user" if turn.user_text else "said user none")
    if turn.heard_text or turn.agent_text:
        heard = turn.heard_text
        unheard = turn.agent_text[len(heard) :].strip() if turn.agent_text.startswith(heard) else ""
        rest = None if not unheard else el("s", f" {unheard}", title="not heard by the caller")
        yield el("p", heard, rest, class_="said agent")
    elif turn.played_seconds:
        yield el("p", NO_TEXT, class_="said agent none")
    elif turn.is_empty:
        yield el("p", "(the model's answer was empty)", class_="said agent none")


def _waterfall(turn: TurnRecord, longest: float) -> Element | None:
    if turn.e2e_latency is None or not turn.stages:
        return None
    rows = []
    at = 0.0
    for stage in turn.stages:
        left, width = 100 * at / longest, max(0.4, 100 * stage.seconds / longest)
        bar = el("i", class_=f"bar {stage.owner}", style=f"left:{left:.2f}%;width:{width:.2f}%")
        rows.append(
            el(
                "tr",
                el("th", words(stage.name), scope="row"),
                el("td", bar, class_="track", aria_hidden="true"),
                el("td", milliseconds(stage.seconds), class_="number"),
                el("td", words(stage.owner), class_="owner"),
            )
        )
        at += stage.seconds
    head = el("tr", *(el("th", text, scope="col") for text in ("stage", "share", "time", "who could shorten it")))
    caption = el("caption", f"Where the {milliseconds(turn.e2e_latency)} went")
    return el("table", caption, el("thead", head, class_="unseen"), el("tbody", *rows), class_="waterfall")


def _notes(turn: TurnRecord) -> Iterator[Element]:
    facts: list[Child] = [el("li", el("b", "in traces and logs "), el("code", turn.turn_id))]
    for tool in turn.tools:
        call = f"{tool.name}({shortened(tool.arguments, TOOL_TEXT)})"
        call += f" → {shortened(tool.output, TOOL_TEXT)}" if tool.output else ""
        what = el("code", call, class_="failed" if tool.is_error else None)
        facts.append(
            el("li", el("b", "tool "), what, f" {milliseconds(tool.seconds)}{', failed' if tool.is_error else ''}")
        )
    if turn.graph_state:
        facts.append(el("li", el("b", "state of the graph "), "; ".join([turn.graph_state, *turn.transitions])))
    facts += [el("li", el("b", "handoff "), f"{each.old} → {each.new}, {each.seconds:.2f} s") for each in turn.handoffs]
    facts += [_interruption(each) for each in turn.interruptions]
    for retry in turn.retries:
        facts.append(el("li", el("b", "retry "), f"{retry.error} (try {retry.attempt})"))
    for fallback in turn.fallbacks:
        change = f"{fallback.component}: {fallback.provider} → {fallback.successor}, {fallback.error}"
        facts.append(el("li", el("b", "fallback "), change))
    for text in turn.unvoiced:
        facts.append(el("li", el("b", "not voiced "), text or NO_TEXT, class_="problem"))
    for wait in turn.waits:
        cost = f"{wait.option} = {wait.configured:g} s cost {milliseconds(wait.seconds)}"
        facts.append(el("li", el("b", "configured wait "), cost))
    if heard := _heard(turn):
        facts.append(el("li", el("b", "heard "), heard))
    if turn.preemptive:
        facts.append(el("li", el("b", "begun ahead "), "the answer was begun before the turn was over"))
    providers = [
        f"{name} {milliseconds(seconds)}"
        for name, seconds in (("model first token", turn.llm_first_token), ("voice first byte", turn.tts_first_byte))
        if seconds is not None
    ]
    if providers:
        facts.append(el("li", el("b", "providers' own times "), ", ".join(providers)))
    if used := _used(turn):
        facts.append(el("li", el("b", "used "), used))
    if turn.error:
        facts.append(el("li", el("b", "error "), turn.error, class_="problem"))
    yield el("ul", *facts, class_="facts")


def _interruption(each: InterruptionRecord) -> Element:
    parts = ["by voice" if each.by == "voice" else f"by {words(each.by)}"]
    if each.candidate_at is not None and each.stopped_at is not None:
        parts.append(f"silent {milliseconds(each.stopped_at - each.candidate_at)} after its onset")
    parts.append(f"decided at {clock(each.decided_at)}")
    parts.append(f"{each.heard_position:.1f} s had been heard")
    name = "interrupted " if each.decision == "interrupted" else "paused, went on "
    return el("li", el("b", name), ", ".join(parts))


def _heard(turn: TurnRecord) -> str:
    parts = []
    if turn.speakers:
        parts.append(f"speaker {', '.join(turn.speakers)}")
    if turn.languages:
        parts.append(f"in {', '.join(turn.languages)}")
    if turn.confidence is not None:
        parts.append(f"confidence {turn.confidence:.0%}")
    return "; ".join(parts)


def _used(turn: TurnRecord) -> str:
    usage = turn.usage
    parts = []
    if usage.llm_input_tokens or usage.llm_output_tokens:
        estimated = f" ({usage.llm_estimated_tokens} of them estimated)" if usage.llm_estimated_tokens else ""
        parts.append(f"{usage.llm_input_tokens} tokens in, {usage.llm_output_tokens} out{estimated}")
    if usage.embedding_tokens:
        parts.append(f"{usage.embedding_tokens} tokens embedded")
    if usage.tts_characters:
        parts.append(f"{usage.tts_characters} characters, {usage.tts_audio_seconds:.1f} s of speech made")
    if usage.stt_audio_seconds:
        parts.append(f"{usage.stt_audio_seconds:.1f} s recognised")
    return "; ".join(parts)
