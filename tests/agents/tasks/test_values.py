"""The values of ready tasks: how they are normalised and checked, and the arguments that tasks refuse."""

from __future__ import annotations

import datetime as dt
import sys
from typing import Any

import pytest
from pydantic import ValidationError

from vivavoce.agents import ToolError
from vivavoce.agents.tasks import (
    AgentTask,
    GetDateTime,
    GetDigitCode,
    GetEmailAddress,
    GetPhoneNumber,
    GetPostalAddress,
    PostalAddress,
    TaskGroup,
    TaskOptions,
)
from vivavoce.agents.tasks.ready.date_time import checked_time, spoken_time
from vivavoce.agents.tasks.ready.email import email_address
from vivavoce.agents.tasks.ready.phone import phone_number, spoken_number
from vivavoce.agents.tasks.ready.postal import postal_code
from vivavoce.pipelines.core.errors import ConfigurationError, SessionError


def test_an_address_is_checked_and_in_lower_case() -> None:
    assert email_address("Ann at Example dot com") == "ann@example.com"
    with pytest.raises(ToolError, match=r"'annexample.com' is no e-mail address: .*@"):
        email_address("ann example dot com")
    with pytest.raises(ToolError, match="is no e-mail address"):
        email_address("ann at example")


@pytest.mark.parametrize(
    ("said", "country", "number"),
    [
        ("oh two oh seven nine four six double oh one eight", "GB", "+442079460018"),
        ("020 7946 0018", "GB", "+442079460018"),
        ("plus four four two oh seven nine four six double oh one eight", "DE", "+442079460018"),
        ("(212) 736-5000", "US", "+12127365000"),
        ("+49 30 901820", "GB", "+4930901820"),
    ],
)
def test_a_phone_number_is_in_e164(said: str, country: str, number: str) -> None:
    assert phone_number(said, country) == number


@pytest.mark.parametrize("said", ["one two three", "no idea", "", "plus nine nine nine one two three four five six"])
def test_what_is_no_phone_number_has_a_reason_for_the_model(said: str) -> None:
    with pytest.raises(ToolError, match="Ask the caller"):
        phone_number(said, "GB")


def test_a_phone_number_is_read_back_in_groups() -> None:
    assert spoken_number("+442079460018", "GB") == "0 2 0, 7 9 4 6, 0 0 1 8"
    assert spoken_number("+442079460018", "DE") == "plus 4 4, 2 0, 7 9 4 6, 0 0 1 8"


@pytest.mark.parametrize(
    ("text", "country", "code"),
    [
        ("sw1a1aa", "GB", "SW1A 1AA"),
        ("k1a0b1", "CA", "K1A 0B1"),
        ("1234ab", "NL", "1234 AB"),
        (" 10115 ", "DE", "10115"),
    ],
)
def test_a_postal_code_is_written_as_in_its_country(text: str, country: str, code: str) -> None:
    assert postal_code(text, country) == code
    address = PostalAddress(street="High Street", house_number="5", postal_code=text, city="Town", country=country)
    assert str(address) == f"High Street 5, {code} Town, {country}"


@pytest.mark.parametrize(
    "parts", [{"city": ""}, {"country": "Germany"}, {"country": "DE", "postal_code": "123"}, {"street": "  "}]
)
def test_an_address_that_cannot_be_is_refused(parts: dict[str, str]) -> None:
    with pytest.raises(ValidationError):
        PostalAddress(**({"street": "High Street", "city": "Town"} | parts))


NOW = dt.datetime(2026, 11, 23, 14, 5, tzinfo=dt.UTC)


def test_a_time_is_in_the_future_and_within_its_limits() -> None:
    limits: dict[str, Any] = {"now": NOW, "earliest": NOW + dt.timedelta(hours=2), "latest": NOW + dt.timedelta(days=7)}
    friday = NOW.replace(day=27, hour=19, minute=30)
    assert checked_time(friday, **limits) is friday
    assert spoken_time(friday) == "Friday, 27 November 2026, at 19:30"
    with pytest.raises(ToolError, match="too early: the first possible time is Monday, 23 November 2026, at 16:05"):
        checked_time(NOW + dt.timedelta(hours=1), **limits)
    with pytest.raises(ToolError, match="too late"):
        checked_time(NOW + dt.timedelta(days=8), **limits)
    with pytest.raises(ToolError, match="too early"):
        checked_time(NOW - dt.timedelta(hours=1), now=NOW, earliest=None, latest=None)


def test_tasks_refuse_arguments_that_can_never_work() -> None:
    with pytest.raises(ConfigurationError, match="need country as two letters"):
        _ = GetPhoneNumber("Germany")
    with pytest.raises(ConfigurationError, match="need country as two letters"):
        _ = GetPostalAddress("Germany")
    with pytest.raises(ConfigurationError, match="need earliest with a time zone"):
        _ = GetDateTime(earliest=dt.datetime(2026, 1, 1))
    with pytest.raises(ConfigurationError, match="need max_length >= length"):
        _ = GetDigitCode(6, max_length=4)
    with pytest.raises(ConfigurationError, match="key_pause"):
        _ = GetDigitCode(4, key_pause=0)
    with pytest.raises(ConfigurationError, match="max_turns"):
        TaskOptions(max_turns=0)
    with pytest.raises(ConfigurationError, match="need history 'keep', 'summary' or 'leave_out'"):
        TaskOptions(history="drop")  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="need a name for each task"):
        _ = TaskGroup().add("a", GetEmailAddress).add("a", GetEmailAddress)
    with pytest.raises(ConfigurationError, match="need options of a group without max_turns"):
        _ = TaskGroup(options=TaskOptions(max_turns=3))


def test_a_task_needs_a_type_of_result_that_pydantic_can_validate() -> None:
    class Nothing(AgentTask):  # type: ignore[type-arg]
        pass

    class Odd(AgentTask[object.__init__]):  # type: ignore[valid-type]
        pass

    class Base(AgentTask[int]):
        pass

    class Derived(Base):
        pass

    with pytest.raises(ConfigurationError, match=r"class Nothing\(AgentTask\[str\]\), or result_type=str"):
        _ = Nothing("Ask.")
    with pytest.raises(ConfigurationError, match="need a result type that pydantic can validate"):
        _ = Odd("Ask.")
    assert Derived("Ask.").outcome is None
    with pytest.raises(SessionError, match="has not begun; await it first"):
        Derived("Ask.").complete(5)
    with pytest.raises(ToolError, match="The result is not valid: result: .+ integer"):
        Derived("Ask.").complete("five")  # type: ignore[arg-type]


def test_a_task_without_its_library_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "email_validator", None)
    with pytest.raises(ConfigurationError, match=r"needs email_validator, .*vivavoce\[tasks\]"):
        _ = GetEmailAddress()


def test_a_task_that_is_put_into_text_and_was_not_awaited_is_a_warning_at_that_line() -> None:
    mail = GetEmailAddress()
    with pytest.warns(RuntimeWarning, match=r"its result is `await GetEmailAddress\(…\)`") as warned:
        text = f"thanks {mail}"
    assert text == f"thanks {mail!r}"
    assert warned[0].filename == __file__
