"""A tool's description for a model, and the check of the arguments that it sends back."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

from vivavoce.agents import RunContext
from vivavoce.pipelines.core.errors import ConfigurationError, ToolError
from vivavoce.pipelines.llm.schema_tool import SchemaTool
from vivavoce.pipelines.llm.tools import ToolCall, function_tool


class Size(Enum):
    SMALL = "small"
    LARGE = "large"


class Guest(BaseModel):
    name: str
    age: int | None = None


@dataclass
class Place:
    street: str
    number: int = 1


@function_tool
async def book(
    context: RunContext,
    day: Annotated[str, Field(description="A weekday.")],
    guests: list[Guest],
    people: Annotated[int, Field(ge=1, le=20)] = 2,
    size: Size = Size.SMALL,
    seat: Literal["in", "out"] | None = None,
    place: Place | None = None,
) -> str:
    """Book a table.

    Args:
        day: When.
    """
    return f"{day} {guests} {people} {size} {seat} {place}"


def test_the_schema_comes_from_hints_annotated_fields_and_defaults() -> None:
    schema = book.parameters_schema()
    assert list(schema["properties"]) == ["day", "guests", "people", "size", "seat", "place"]
    assert schema["required"] == ["day", "guests"]
    assert schema["additionalProperties"] is False
    assert schema["properties"]["day"] == {"description": "A weekday.", "title": "Day", "type": "string"}
    people = schema["properties"]["people"]
    assert (people["minimum"], people["maximum"], people["default"]) == (1, 20, 2)
    assert schema["$defs"]["Guest"]["required"] == ["name"]
    assert book.description == "Book a table.\n\nArgs:\n    day: When."


def test_arguments_arrive_as_the_types_that_the_function_names() -> None:
    arguments = book.parse_arguments(
        '{"day": "friday", "guests": [{"name": "Ada"}], "size": "large", "place": {"street": "Mill"}}'
    )
    assert arguments == {
        "day": "friday",
        "guests": [Guest(name="Ada")],
        "people": 2,
        "size": Size.LARGE,
        "seat": None,
        "place": Place("Mill"),
    }


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "day: .+; guests: .+"),
        ("not json", "arguments: .+"),
        ("[]", "arguments: .+"),
        ('{"day": "friday", "guests": [{}]}', r"guests\.0\.name: .+"),
        ('{"day": "friday", "guests": [], "people": 0}', "people: .+ 1"),
        ('{"day": "friday", "guests": [], "colour": 1}', "colour: .+"),
    ],
)
def test_what_is_wrong_with_arguments_is_said_by_name_and_without_what_they_were(text: str, says: str) -> None:
    with pytest.raises(ToolError) as caught:
        book.parse_arguments(text)
    # The words behind a name are those of pydantic's release.
    assert re.match(f"The arguments are not valid: {says}", str(caught.value))
    assert caught.value.__cause__ is None


@pytest.mark.filterwarnings("error")
def test_a_parameter_may_have_a_name_that_pydantic_uses_itself() -> None:
    @function_tool
    def awkward(copy: int, schema: str, json: bool, model_config: str, self_: int = 0) -> list[object]:
        """Awkward names."""
        return [copy, schema, json, model_config, self_]

    assert set(awkward.parameters_schema()["properties"]) == {"copy", "schema", "json", "model_config", "self_"}
    arguments = awkward.parse_arguments('{"copy": 1, "schema": "s", "json": true, "model_config": "m"}')
    assert awkward(**arguments) == [1, "s", True, "m", 0]


def test_a_method_keeps_its_schema_and_binds_to_its_object() -> None:
    class Desk:
        name = "desk"

        @function_tool
        def ring(self, times: int = 1) -> str:
            """Ring."""
            return self.name * times

    tool = Desk().ring
    assert list(tool.parameters_schema()["properties"]) == ["times"]
    assert tool(**tool.parse_arguments('{"times": 2}')) == "deskdesk"


def given(**options: Any) -> SchemaTool:
    async def run(arguments: dict[str, Any]) -> Any:
        return arguments

    parameters = {"type": "object", "properties": {"a": {"type": "integer"}}}
    return SchemaTool(run, name="given", description="Given.", parameters=parameters, **options)


async def test_a_schema_tool_has_the_given_schema_and_gets_its_arguments_as_one_dict() -> None:
    tool = given(timeout=3.0)
    assert tool.parameters_schema() == {"type": "object", "properties": {"a": {"type": "integer"}}}
    tool.parameters_schema()["properties"].clear()  # a copy
    assert tool.parameters_schema()["properties"]
    assert tool.is_async
    assert tool.timeout == 3.0
    assert await tool(**tool.parse_arguments('{"a": 1}')) == {"a": 1}
    assert await tool(**tool.parse_arguments("")) == {}


@pytest.mark.parametrize(
    ("text", "says"),
    [("[1]", "not a JSON object"), ("{", "not JSON"), ("[" * 100_000, "not JSON")],
    ids=["a list", "cut off", "without end"],
)
def test_a_schema_tool_takes_a_json_object_only(text: str, says: str) -> None:
    with pytest.raises(ToolError, match=says):
        given().parse_arguments(text)


def test_a_schema_tool_may_be_an_attribute_of_a_class() -> None:
    class Desk:
        tool = given()

    assert Desk().tool is Desk.tool


def test_parameters_without_a_hint_are_refused_by_name() -> None:
    def bad(day) -> str:  # type: ignore[no-untyped-def]
        return str(day)

    with pytest.raises(ConfigurationError, match="parameter 'day' needs a type hint"):
        function_tool(bad).check()


def test_self_of_a_function_outside_of_a_class_is_a_parameter_like_any_other() -> None:
    def bad(self, day: str) -> str:  # type: ignore[no-untyped-def]
        return day

    with pytest.raises(ConfigurationError, match="parameter 'self' needs a type hint"):
        function_tool(bad).check()


def test_self_of_a_method_is_no_parameter_before_it_has_an_object() -> None:
    class Desk:
        @function_tool
        def book(self, day: str) -> str:
            return day

    assert list(Desk.book.parameters_schema()["properties"]) == ["day"]


def test_a_call_with_arguments_that_are_no_text_is_refused_with_the_remedy() -> None:
    arguments: Any = {"day": "friday"}
    with pytest.raises(ConfigurationError, match=r"arguments must be JSON text, got dict; use json.dumps\(…\)"):
        ToolCall(call_id="1", name="book", arguments=arguments)
