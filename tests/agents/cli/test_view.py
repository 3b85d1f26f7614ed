"""The demo's output: the call while it runs, and the texts around it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from io import StringIO

import pytest
from rich.console import Console

from vivavoce.agents.caller.measuring import Check
from vivavoce.agents.cli.demo import notices
from vivavoce.agents.cli.demo.place import Place
from vivavoce.agents.cli.live.view import View
from vivavoce.agents.records import StageRecord, TurnRecord
from vivavoce.agents.states import AgentState, UserState

RECORD = TurnRecord(
    turn_id="turn_1",
    user_text="at seven",
    agent_text="At seven. For how many people?",
    heard_text="At seven. For how many people?",
    outcome="completed",
    interrupted=False,
    e2e_latency=0.452,
    stages=(
        StageRecord("vad_silence", "config", 0.2),
        StageRecord("model_first_token", "provider", 0.15),
        StageRecord("hook", "user_code", 0.0),
        StageRecord("tts_first_byte", "provider", 0.002),
        StageRecord("playout", "runtime", 0.1),
    ),
)


def _printed(show: Callable[[Console], None], *, width: int = 100) -> str:
    out = StringIO()
    show(Console(file=out, width=width))
    return out.getvalue()


def _shown(show: Callable[[View], None], *, width: int = 100, is_terminal: bool = False) -> str:
    out = StringIO()
    with View(Console(file=out, width=width, force_terminal=is_terminal)) as view:
        show(view)
    return out.getvalue()


def test_a_waterfall_is_one_line_with_a_cell_for_each_25_ms() -> None:
    (line,) = _shown(lambda view: view.turn(RECORD)).splitlines()
    assert "0.45 s" in line
    assert (line.count("█"), line.count("▓"), line.count("▒")) == (8, 6, 4)
    assert "silence 200 model 150 playout 100 +2 ms" in line
    assert "hook" not in line


@pytest.mark.parametrize("width", [20, 30, 48, 60])
def test_a_waterfall_that_does_not_fit_goes_on_below_and_breaks_no_stage_in_two(width: int) -> None:
    lines = _shown(lambda view: view.turn(RECORD), width=width).splitlines()
    assert len(lines) > 1
    assert all(line.startswith(" " * 8) for line in lines)
    assert max(len(line) for line in lines) <= width
    for group in ("silence 200", "model 150", "playout 100"):
        assert sum(group in line for line in lines) == 1
    if width >= 30:
        assert "+2 ms" in lines[-1]


def test_a_turn_of_the_agents_that_was_cut_in_its_first_word_is_said_to_be() -> None:
    cut = replace(RECORD, agent_text="", heard_text="", outcome="interrupted", interrupted=True, played_seconds=0.63)
    said, bar = _shown(lambda view: view.turn(cut)).splitlines()
    assert said.split() == ["agent", "…", "✂", "cut", "off", "after", "0.63", "s"]
    assert "█" in bar


def test_a_turn_that_was_cut_later_is_shown_once_and_one_that_was_never_heard_not_at_all() -> None:
    cut = replace(RECORD, outcome="interrupted", interrupted=True, played_seconds=1.5)

    def call(view: View) -> None:
        view.agent_said("At seven.", interrupted=True)
        view.turn(cut)
        view.turn(replace(cut, played_seconds=0.0, e2e_latency=None))

    assert _shown(call).count("cut off") == 1


def test_words_of_an_earlier_turn_do_not_hide_that_a_later_one_was_cut() -> None:
    def call(view: View) -> None:
        view.agent_said("Hello.", interrupted=False)
        view.turn(RECORD)
        view.turn(replace(RECORD, outcome="interrupted", interrupted=True, played_seconds=0.2))

    assert _shown(call).count("cut off after 0.20 s") == 1


def test_a_failed_turn_says_why() -> None:
    failed = TurnRecord(
        turn_id="t", outcome="failed", interrupted=False, e2e_latency=None, error="llm: no first token in 10 s"
    )
    assert "llm: no first token in 10 s" in _shown(lambda view: view.turn(failed))


def test_a_long_line_goes_on_under_itself() -> None:
    text = "I have booked friday at seven for four guests."
    first, second = _shown(lambda view: view.agent_said(text, interrupted=True), width=40).splitlines()
    assert first.startswith("agent   I have")
    assert second.startswith("        ")
    assert second.rstrip().endswith("cut off")


def test_words_that_look_like_markup_are_shown_as_they_are() -> None:
    assert "[bold]x[/bold] :smile:" in _shown(lambda view: view.caller_said("[bold]x[/bold] :smile:"))


def test_a_join_token_is_never_broken_in_two() -> None:
    token = "e" * 300
    assert token in _printed(lambda console: notices.show_token(console, "room", token), width=60)


def test_the_secret_is_shown_for_the_embedded_room_only() -> None:
    embedded = Place(url="ws://127.0.0.1:1", api_key="key", api_secret="secret-1")
    foreign = Place(url="ws://127.0.0.1:1", api_key="key", api_secret="secret-1", agent_name="demo")
    assert "secret-1" in _printed(lambda console: notices.show_place(console, embedded))
    assert "secret-1" not in _printed(lambda console: notices.show_place(console, foreign))


def test_the_summary_puts_each_wait_beside_the_turn_it_belongs_to() -> None:
    greeting = TurnRecord(
        turn_id="s", kind="say", heard_text="Hello.", outcome="completed", interrupted=False, e2e_latency=None
    )
    lines = _printed(lambda console: notices.show_summary(console, [greeting, RECORD], [0.61])).splitlines()
    (said,) = [line for line in lines if "Hello." in line]
    (answered,) = [line for line in lines if "at seven" in line]
    assert "0.61 s" not in said
    assert "0.45 s" in answered
    assert "0.61 s" in answered


@pytest.mark.parametrize(("is_met", "mark"), [(True, "✓"), (False, "✗")])
def test_a_check_shows_whether_it_is_met(is_met: bool, mark: str) -> None:
    assert f"{mark} silent: 0.80 s" in _printed(
        lambda console: notices.show_checks(console, [Check("silent", is_met, "0.80 s")])
    )


def test_a_failed_check_says_what_to_do() -> None:
    failed = _printed(lambda console: notices.show_checks(console, [Check("silent", False, "0.80 s")]))
    assert "try again when it is quiet" in " ".join(failed.split())
    assert "try again" not in _printed(lambda console: notices.show_checks(console, [Check("silent", True, "0.80 s")]))


def test_the_waiting_demo_says_what_comes_next() -> None:
    assert "vivavoce new NAME" in _printed(notices.show_waiting)


def test_who_speaks_is_shown_live_on_a_terminal_and_gone_when_the_call_is_over() -> None:
    def call(view: View) -> None:
        view.call_started("room")
        view.user_state(UserState.SPEAKING)
        view.interim("at sev")
        view.agent_state(AgentState.THINKING)
        view.call_ended("participant_left")

    shown = _shown(call, is_terminal=True)
    assert "● caller speaking" in shown
    assert "at sev" in shown
    assert "agent thinking" in shown
    plain = _shown(call)
    assert "caller speaking" not in plain
    assert "call ended: participant_left" in plain


def test_a_long_result_of_a_tool_is_cut_and_its_length_shown() -> None:
    shown = _shown(lambda view: view.tool("look_up", "{}", "xxx " * 15_000, is_error=False))
    assert "… 60,000 characters" in " ".join(shown.split())
    assert shown.count("x") == 375
    assert "→ done" in _shown(lambda view: view.tool("look_up", "{}", "done", is_error=False))
