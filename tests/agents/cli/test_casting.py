"""Casting: a reload gives a conversation back to the agent that had it, found by its id."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from vivavoce.agents import Agent, AgentSession
from vivavoce.agents.cli.dev.casting import find_agent, loaded_agents
from vivavoce.agents.cli.dev.stage import Call
from vivavoce.agents.cli.dev.wire import Speaker
from vivavoce.agents.testing import ScriptedLLM, ScriptedTTS
from vivavoce.pipelines import CascadingPipeline
from vivavoce.pipelines.core.errors import ConfigurationError


class Host(Agent):
    def __init__(self) -> None:
        super().__init__("Greet.")


class Billing(Agent):
    def __init__(self) -> None:
        super().__init__("Help with bills.", id="bills")


class Named(Agent):
    """Its class has the name of another one's id."""

    def __init__(self) -> None:
        super().__init__("Help.", id="somebody else")


class Expert(Agent):
    def __init__(self, topic: str) -> None:
        super().__init__(f"Talk about {topic}.")


class Broken(Agent):
    def __init__(self) -> None:
        raise RuntimeError("its file is missing")


class Told(Speaker):
    """Keeps the messages."""

    def __init__(self) -> None:
        self.messages: list[tuple[str, dict[str, Any]]] = []

    def send(self, what: str, **fields: Any) -> None:
        self.messages.append((what, fields))

    @property
    def problems(self) -> list[str]:
        return [fields["arguments"]["text"] for _, fields in self.messages if fields.get("shown") == "problem"]


def reload(agents: Mapping[str, type[Agent]], wanted: str) -> tuple[str, list[str]]:
    """Return the id of the agent that continues, and the problems shown."""
    told = Told()
    session = AgentSession(Host(), CascadingPipeline(llm=ScriptedLLM(), tts=ScriptedTTS()))
    call = Call("kitchen", told, agents, has_conversation=True, preview={"agent": wanted})
    call.session_begins(session)
    return session.agent.id, told.problems


async def test_an_agent_with_an_id_of_its_own_goes_on() -> None:
    assert reload({"Host": Host, "Billing": Billing}, "bills") == ("bills", [])


async def test_an_agent_of_another_module_of_the_app_goes_on() -> None:
    assert reload({"Host": Host}, "bills") == ("bills", [])  # only this file has it


async def test_an_agent_that_cannot_be_made_is_named_with_its_remedy() -> None:
    continues, (problem,) = reload({"Host": Host, "Expert": Expert}, "Expert")
    assert continues == "Host"
    assert problem == (
        "Host continues, not Expert: Expert needs the argument `topic`: give it a default, then a reload can continue "
        "with it."
    )


def test_an_id_decides_and_not_the_name_of_a_class() -> None:
    assert type(find_agent("somebody else", [Billing, Named])) is Named
    with pytest.raises(ConfigurationError, match="^Have a class of agents give the id 'Named' by default. A reload"):
        find_agent("Named", [Billing, Named])


def test_an_agent_that_cannot_be_made_does_not_keep_another_from_being_found() -> None:
    assert type(find_agent("bills", [Broken, Expert, Billing])) is Billing


def test_without_such_an_agent_the_error_names_those_that_could_not_be_made() -> None:
    with pytest.raises(ConfigurationError) as caught:
        find_agent("nobody", [Broken, Expert, Billing])
    assert str(caught.value) == (
        "Broken() raised RuntimeError: its file is missing: mend it. Expert needs the argument `topic`: give it a "
        "default. A reload makes each agent without arguments, and none that it made has the id 'nobody'."
    )


def test_the_agents_of_the_app_come_before_those_that_it_has_loaded_and_ours_are_left_out() -> None:
    kinds = loaded_agents({"Billing": Billing})
    assert kinds[0] is Billing
    assert Expert in kinds
    assert not [kind for kind in kinds if kind.__module__.startswith("vivavoce.")]
