"""Agent: values from its class, and mistakes that show at its construction."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from vivavoce.agents import Agent, function_tool
from vivavoce.pipelines.core.errors import ConfigurationError, SessionNotStartedError

if TYPE_CHECKING:
    from decimal import Decimal


class Base(Agent):
    @function_tool
    async def look(self, day: str) -> str:
        """Look a day up."""
        return day


class Host(Base):
    @function_tool(name="reserve")
    async def book(self, day: str) -> str:
        """Book."""
        return day


def test_tools_are_the_marked_methods_inherited_ones_included_and_those_given() -> None:
    def weather(city: str) -> str:
        """Tell the weather."""
        return city

    assert [tool.name for tool in Host("Help.", tools=[weather]).tools] == ["look", "reserve", "weather"]


def test_two_tools_of_one_name_are_refused() -> None:
    def look(city: str) -> str:
        """Look."""
        return city

    with pytest.raises(ConfigurationError, match="'look'"):
        Base("Help.", tools=[look])


def test_a_tool_parameter_without_a_type_hint_is_refused_when_the_agent_is_made() -> None:
    def count(number) -> str:  # type: ignore[no-untyped-def]  # the mistake under test
        """Count."""
        return str(number)

    with pytest.raises(ConfigurationError, match="parameter 'number' needs a type hint"):
        Agent("Help.", tools=[count])


def test_a_type_hint_that_is_not_there_at_run_time_is_refused_when_the_agent_is_made() -> None:
    def pay(amount: Decimal) -> str:
        """Pay."""
        return str(amount)

    with pytest.raises(ConfigurationError, match="'Decimal'.*TYPE_CHECKING"):
        Agent("Help.", tools=[pay])


def test_an_agent_outside_a_session_says_so() -> None:
    with pytest.raises(SessionNotStartedError, match="in no session"):
        _ = Host("Help.").session
