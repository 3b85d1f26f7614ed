"""A reload moves the calls of the old code to the new one; a call that ends meanwhile is no failure of the new code."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from livekit.api import TokenVerifier

from vivavoce.agents.cli.demo.place import Place
from vivavoce.agents.cli.dev.agent_process import AgentProcess
from vivavoce.agents.cli.dev.child import ChildRequest
from vivavoce.agents.cli.dev.reload import Moved, move_calls
from vivavoce.agents.cli.dev.wire import Message
from vivavoce.agents.dev_room import DEV_API_KEY, DEV_API_SECRET

URL = "ws://127.0.0.1:1"
PLACE = Place(url=URL, api_key=DEV_API_KEY, api_secret=DEV_API_SECRET)
REQUEST = ChildRequest(file="app.py", url=URL, api_key=DEV_API_KEY, api_secret=DEV_API_SECRET)
TALK = {"agent": "Host"}
LOST = {"is": "call_failed", "room": "kitchen", "error": "the room is gone"}


class ScriptedProcess(AgentProcess):
    """A child that answers each command by given messages about the room `kitchen`; the last answer is repeated."""

    def __init__(self, number: int, **answers: list[Message]) -> None:
        super().__init__(number, REQUEST, lambda child, message: None, logging.getLogger().info)
        self.commands: list[str] = []
        self.given: dict[str, dict[str, Any]] = {}
        """The fields of the last command of each name."""
        self._answers = answers

    async def send(self, what: str, **fields: Any) -> None:
        self.commands.append(what)
        self.given[what] = fields
        if answers := self._answers.get(what):
            answer = answers[0] if len(answers) == 1 else answers.pop(0)
            self.take({"room": "kitchen", **answer})


def old_code(*, preview: list[Message] | None = None, hand_over: Message | None = None) -> ScriptedProcess:
    """The old code, in a call in `kitchen`."""
    running = {"is": "preview", "conversation": TALK, "problem": "", "is_over": False}
    handed_over = {"is": "handed_over", "conversation": TALK, "is_over": False}
    old = ScriptedProcess(1, preview=preview or [running], hand_over=[hand_over or handed_over])
    old.take({"is": "call", "room": "kitchen", "job": {"id": "AJ_1", "room": "kitchen"}})
    return old


def new_code(take: Message | None = None, go_on: Message | None = None) -> ScriptedProcess:
    return ScriptedProcess(2, take=[take or {"is": "ready"}], go_on=[go_on or {"is": "resumed"}])


async def reload(old: AgentProcess, new: AgentProcess) -> list[Moved]:
    return await move_calls(old, new, PLACE, pytest.fail)


async def test_a_running_call_is_moved() -> None:
    old, new = old_code(), new_code()
    assert await reload(old, new) == [Moved("kitchen")]
    assert (old.commands, new.commands) == (["preview", "hand_over"], ["take", "go_on"])
    assert new.given["go_on"]["conversation"] == TALK
    token = TokenVerifier(DEV_API_KEY, DEV_API_SECRET).verify(new.given["take"]["token"])
    assert token.identity == "agent-AJ_1-2"


async def test_a_call_that_cannot_go_on_keeps_the_old_code() -> None:
    old, new = old_code(), new_code(take={"is": "call_failed", "error": "KeyError: late"})
    assert await reload(old, new) == [Moved("kitchen", "KeyError: late")]
    assert "hand_over" not in old.commands


OVER = {"is": "preview", "conversation": None, "problem": "", "is_over": True}


async def test_a_call_that_was_over_before_the_new_code_came_is_left_alone() -> None:
    old, new = old_code(preview=[OVER]), new_code()
    assert await reload(old, new) == [Moved("kitchen", was_over=True)]
    assert new.commands == []


@pytest.mark.parametrize("answer", [LOST, {"is": "call_over", "is_hung_up": False}], ids=["fails", "leaves"])
async def test_new_code_that_comes_into_a_call_just_when_it_ends_has_not_failed(answer: Message) -> None:
    running = {"is": "preview", "conversation": TALK, "problem": "", "is_over": False}
    old, new = old_code(preview=[running, OVER]), new_code(take=answer)
    assert await reload(old, new) == [Moved("kitchen", was_over=True)]
    assert new.commands == ["take", "drop"]


async def test_new_code_leaves_a_call_that_ends_while_it_waits_for_the_conversation() -> None:
    old, new = old_code(hand_over={"is": "handed_over", "conversation": None, "is_over": True}), new_code()
    assert await reload(old, new) == [Moved("kitchen", was_over=True)]
    assert new.commands == ["take", "drop"]


async def test_a_caller_who_hangs_up_between_the_two_codes_is_no_failure_of_the_new_one() -> None:
    new = new_code(go_on={**LOST, "is_hung_up": True})
    assert await reload(old_code(), new) == [Moved("kitchen", was_over=True)]


async def test_new_code_that_leaves_a_call_it_was_given_has_failed() -> None:
    new = new_code(go_on={"is": "call_over", "is_hung_up": False})
    assert await reload(old_code(), new) == [Moved("kitchen", "the new code left the call by itself")]
