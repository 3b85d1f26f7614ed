"""Schema: a tool's JSON schema in the part of JSON Schema that Gemini takes.

The API documents its keywords, and refuses a request with another one. A constraint that is left out, such as
`pattern`, holds all the same: the session checks the arguments before it runs the tool.

Sources: https://ai.google.dev/api/generate-content (`responseJsonSchema` lists the keywords); `FunctionDeclaration` in
`types.py` of google-genai 3.6.1; https://github.com/su-kaka/gcli2api/pull/374 (nothing may stand beside a `$ref`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

KEYWORDS = frozenset(
    {
        "type",
        "format",
        "description",
        "enum",
        "items",
        "prefixItems",
        "minItems",
        "maxItems",
        "minimum",
        "maximum",
        "anyOf",
        "properties",
        "additionalProperties",
        "required",
        "propertyOrdering",
    }
)
FORMATS = ("date-time", "date", "time")
"""Source: https://ai.google.dev/gemini-api/docs/structured-output."""

LISTS = ("anyOf", "oneOf", "prefixItems")
NESTED = ("items", "additionalProperties")

Schema = dict[str, Any]


def gemini_schema(schema: Mapping[str, Any]) -> Schema:
    """Return the schema with keywords that Gemini takes only. References are replaced by their targets.

    A schema that refers to itself ends at `{"type": "object"}` there.
    """
    return _converted(schema, schema, ())


def _converted(node: Mapping[str, Any], root: Mapping[str, Any], above: tuple[str, ...]) -> Schema:
    reference = node.get("$ref")
    if isinstance(reference, str):
        beside = {name: value for name, value in node.items() if name != "$ref"}
        if reference in above:
            return _converted({"type": "object", **beside}, root, above)
        return _converted({**_target(reference, root), **beside}, root, (*above, reference))
    wholes = node.get("allOf")
    if (
        isinstance(wholes, list) and len(wholes) == 1 and isinstance(wholes[0], Mapping)
    ):  # pydantic's way to describe a reference
        return _converted({**wholes[0], **{key: one for key, one in node.items() if key != "allOf"}}, root, above)
    made = {name: value for name, value in node.items() if name in KEYWORDS}
    if made.get("format") not in FORMATS:
        made.pop("format", None)
    if "const" in node:
        made["enum"] = [node["const"]]
    if isinstance(values := made.pop("enum", None), list):  # of texts and numbers only
        values = [one for one in values if isinstance(one, str | int | float) and not isinstance(one, bool)]
        made |= {"enum": values} if values else {}
    for name, other, step in (("exclusiveMinimum", "minimum", 1), ("exclusiveMaximum", "maximum", -1)):
        if isinstance(limit := node.get(name), int | float) and other not in made:
            made[other] = limit + step if node.get("type") == "integer" else limit
    for name in LISTS:
        if isinstance(parts := node.get(name), list):
            made["anyOf" if name == "oneOf" else name] = [_part(one, root, above) for one in parts]
    for name in NESTED:
        if isinstance(inner := made.get(name), Mapping):
            made[name] = _converted(inner, root, above)
    if isinstance(properties := made.get("properties"), Mapping):
        made["properties"] = {name: _part(one, root, above) for name, one in properties.items()}
    return made


def _part(node: Any, root: Mapping[str, Any], above: tuple[str, ...]) -> Schema:
    return _converted(node, root, above) if isinstance(node, Mapping) else {}


def _target(reference: str, root: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the schema that a reference such as `#/$defs/Place` names; one that cannot be found allows anything."""
    found: Any = root
    for name in filter(None, reference.removeprefix("#").split("/")):
        found = found.get(name.replace("~1", "/").replace("~0", "~")) if isinstance(found, Mapping) else None
    return found if isinstance(found, Mapping) else {}
