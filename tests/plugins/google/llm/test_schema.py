"""A tool's JSON schema has the keywords that Gemini takes, and says the same."""

from __future__ import annotations

from datetime import date
from enum import Enum
from typing import Annotated, Any, Literal
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from vivavoce.pipelines.llm.tools import function_tool
from vivavoce.plugins.google.schema import gemini_schema
from vivavoce.plugins.google.twin.rules import KEYWORDS, problem_of


class Size(Enum):
    SMALL = "small"
    LARGE = "large"


class Place(BaseModel):
    city: str
    near: Place | None = None


@function_tool
def book(
    day: date,
    size: Size,
    place: Annotated[Place, Field(description="Where.")],
    kind: Literal["in"] = "in",
    people: Annotated[int, Field(gt=0, lt=20)] = 2,
    notes: Annotated[list[str] | None, Field(max_length=3)] = None,
    code: Annotated[str, Field(pattern="[a-z]+", min_length=2)] = "ab",
    vip: Literal[True] = True,
    customer: UUID | None = None,
) -> str:
    """Book a table."""
    return str((day, size, place, kind, people, notes, code, vip, customer))


def test_references_constants_and_limits_are_said_in_geminis_words() -> None:
    made = gemini_schema(book.parameters_schema())["properties"]
    assert made["day"] == {"type": "string", "format": "date"}
    assert made["size"] == {"type": "string", "enum": ["small", "large"]}
    assert made["place"]["description"] == "Where."
    assert made["place"]["properties"]["city"] == {"type": "string"}
    assert made["place"]["properties"]["near"]["anyOf"] == [{"type": "object"}, {"type": "null"}]
    assert made["kind"] == {"type": "string", "enum": ["in"]}
    assert made["people"] == {"type": "integer", "minimum": 1, "maximum": 19}
    assert made["notes"]["anyOf"][0] == {"type": "array", "items": {"type": "string"}, "maxItems": 3}
    assert made["code"] == {"type": "string"}
    assert made["vip"] == {"type": "boolean"}
    assert made["customer"]["anyOf"] == [{"type": "string"}, {"type": "null"}]


def test_a_property_may_have_the_name_of_a_keyword() -> None:
    schema = {"type": "object", "properties": {"title": {"type": "string", "title": "Title"}, "$ref": {"const": 1}}}
    assert gemini_schema(schema)["properties"] == {"title": {"type": "string"}, "$ref": {"enum": [1]}}


@pytest.mark.parametrize(
    ("schema", "made"),
    [
        ({"$ref": "#/$defs/none"}, {}),
        ({"oneOf": [{"type": "string"}, True]}, {"anyOf": [{"type": "string"}, {}]}),
        ({"type": "number", "exclusiveMinimum": 0}, {"type": "number", "minimum": 0}),
        ({"allOf": [{"type": "string"}], "description": "A."}, {"type": "string", "description": "A."}),
        ({"enum": [None, "a", False]}, {"enum": ["a"]}),
        ({"$ref": "#"}, {"type": "object"}),
        ({"allOf": None, "format": {}}, {}),
    ],
)
def test_a_schema_of_any_form_is_converted(schema: Any, made: Any) -> None:
    assert gemini_schema(schema) == made


names = st.sampled_from([*sorted(KEYWORDS), "allOf", "const", "pattern", "not", "if", "exclusiveMinimum", "default"])
leaves = st.none() | st.booleans() | st.integers() | st.sampled_from(["string", "#", "#/$defs/a", "#/properties/a"])
schemas = st.recursive(
    st.dictionaries(names, leaves, max_size=3),
    lambda inner: st.dictionaries(
        names,
        inner | st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
        max_size=4,
    ),
    max_leaves=8,
)


@given(schemas)
def test_whatever_the_schema_is_the_api_knows_its_keywords(schema: Any) -> None:
    made = {**gemini_schema({**schema, "properties": {"a": schema}}), "type": "object"}
    declared = {"name": "book", "parametersJsonSchema": made}
    body = {"contents": [{"parts": [{"text": "Hi"}]}], "tools": [{"functionDeclarations": [declared]}]}
    problem = problem_of("gemini-3.8-flash", body, set())
    assert problem is None or "Unknown name" not in problem.message
