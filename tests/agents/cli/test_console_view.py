"""The console shows its one call without disturbing the person who types."""

from __future__ import annotations

from collections.abc import Callable
from io import StringIO

import pytest
from rich.console import Console

from vivavoce.agents.cli.console.view import ConsoleView
from vivavoce.agents.states import AgentState

WIDTH = 60


def _shown(show: Callable[[ConsoleView], None], *, is_typed_at: bool = False, is_terminal: bool = True) -> str:
    out = StringIO()
    console = Console(file=out, width=WIDTH, force_terminal=is_terminal, color_system=None, _environ={"TERM": "xterm"})
    view = ConsoleView(console, "console", is_typed_at=is_typed_at)
    with view:
        show(view)
    return out.getvalue()


def _on_screen(printed: str, typed: str) -> list[str]:
    """Return the lines of a terminal of `WIDTH` columns on which that was printed after that was typed."""
    rows, at = [""], 0

    def put(character: str) -> None:
        nonlocal at
        if at == WIDTH:
            rows.append("")
            at = 0
        rows[-1] = rows[-1][:at].ljust(at) + character + rows[-1][at + 1 :]
        at += 1

    rest = typed + printed
    while rest:
        if rest.startswith("\x1b[K"):
            rows[-1], rest = rows[-1][:at], rest[3:]
            continue
        character, rest = rest[0], rest[1:]
        if character == "\r":
            at = 0
        elif character == "\n":
            rows.append("")
            at = 0
        else:
            put(character)
    return [row.rstrip() for row in rows]


def test_the_call_is_shown_once_the_agent_is_there() -> None:
    def call(view: ConsoleView) -> None:
        view.agent_state(AgentState.STARTING)
        view.note("a note")
        view.agent_state(AgentState.SPEAKING)
        view.agent_state(AgentState.IDLE)
        view.call_ended("job_ended")

    shown = _shown(call, is_terminal=False)
    assert shown.index("a note") < shown.index("call in room console")
    assert shown.count("call in room") == 1
    assert "call ended: job_ended" in shown


def test_a_call_that_never_began_has_not_ended_either() -> None:
    def call(view: ConsoleView) -> None:
        for state in (AgentState.STARTING, AgentState.CLOSING, AgentState.CLOSED):
            view.agent_state(state)
        view.call_ended("start_failed")

    assert _shown(call) == ""


@pytest.mark.parametrize(
    ("reason", "expected"), [("job_ended", "the input has ended"), ("participant_left", "participant_left")]
)
def test_whoever_ended_the_call_is_told_why_it_ended(reason: str, expected: str) -> None:
    def call(view: ConsoleView) -> None:
        view.agent_state(AgentState.IDLE)
        view.ending("the input has ended")
        view.ending("interrupted")
        view.call_ended(reason)

    assert f"call ended: {expected}\n" in _shown(call, is_terminal=False)


def test_what_was_typed_into_this_terminal_is_not_repeated_and_nothing_below_it_is_drawn_anew() -> None:
    def call(view: ConsoleView) -> None:
        view.agent_state(AgentState.IDLE)
        view.caller_said("on friday")
        view.agent_state(AgentState.THINKING)
        view.agent_said("At what time?", interrupted=False)

    shown = _shown(call, is_typed_at=True)
    assert "on friday" not in shown
    assert "thinking" not in shown
    assert "At what time?" in shown
    assert "on friday" in _shown(call)
    assert "thinking" in _shown(call)


@pytest.mark.parametrize("typed", ["", "o", "on fri", "x" * (WIDTH - 1), "x" * WIDTH])
def test_an_answer_begins_a_line_of_its_own_wherever_the_typist_is(typed: str) -> None:
    shown = _shown(lambda view: view.agent_said("At what time?", interrupted=False), is_typed_at=True)
    answer = ["agent   At what time?", ""]
    assert _on_screen(shown, typed) == ([typed, *answer] if typed else answer)
