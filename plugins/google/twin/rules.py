"""Rules: the requests that the API refuses, with the statuses and (in part) texts of its errors, sans-I/O.

Sources: https://ai.google.dev/api/generate-content (fields), …/gemini-api/docs/function-calling (order of calls and
responses), …/thought-signatures (signatures, the value without one), …/thinking (budget or level), …/troubleshooting;
`types.py` of google-genai 3.6.1 (names, modes); texts of errors as users report them, for the signature in
https://github.com/langgenius/dify-official-plugins/issues/2088.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from vivavoce.plugins.google.twin.script import Refuse

NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,127}")
MODES = frozenset({"AUTO", "ANY", "NONE", "VALIDATED"})
MEDIA_TYPES = frozenset({"image/png", "image/jpeg", "image/webp", "image/heic", "image/heif"})
LEVELS = frozenset({"MINIMAL", "LOW", "MEDIUM", "HIGH", "XHIGH"})
FIELDS = frozenset(
    {
        "contents",
        "systemInstruction",
        "tools",
        "toolConfig",
        "generationConfig",
        "safetySettings",
        "cachedContent",
        "labels",
        "serviceTier",
        "model",
    }
)
KEYWORDS = frozenset(
    "$id $defs $ref $anchor type format title description enum items prefixItems minItems maxItems minimum maximum "
    "anyOf oneOf properties additionalProperties required propertyOrdering".split()
)
"""Source: https://ai.google.dev/api/generate-content, `responseJsonSchema`."""

NO_SIGNATURE = "skip_thought_signature_validator"
DUMMIES = (NO_SIGNATURE, "context_engineering_is_the_way_to_go")
"""Values for calls that the model did not make. Source: …/thought-signatures, FAQ."""

MISSING = (
    "Function call is missing a thought_signature in functionCall parts. This is required for tools to work correctly, "
    "and missing thought_signature may lead to degraded model performance. Additional data, function call "
    "`default_api:{}` , position {}. Please refer to https://ai.google.dev/gemini-api/docs/thought-signatures for more "
    "details."
)

FREE = frozenset({"args", "response", "parametersJsonSchema", "responseJsonSchema"})
"""Fields whose content is not protobuf's."""

Part = Mapping[str, Any]


def in_one_spelling(value: Any) -> Any:
    """Return a body with its fields in camel case: JSON of protobuf may have either, and the SDK sends both.

    Source: https://protobuf.dev/programming-guides/json/.
    """
    if isinstance(value, list):
        return [in_one_spelling(one) for one in value]
    if not isinstance(value, dict):
        return value
    named = {re.sub(r"_([a-z])", lambda found: found[1].upper(), name): one for name, one in value.items()}
    return {name: one if name in FREE else in_one_spelling(one) for name, one in named.items()}


def thinks_by_level(model: str) -> bool:
    """Return whether a model is of Gemini 3 or later: it signs its calls, and takes a level of thinking."""
    return re.match(r"gemini-([3-9]|[1-9]\d|\D*latest)", model) is not None


def problem_of(model: str, body: Any, signatures: Collection[str]) -> Refuse | None:
    """Return the error for a request; None if the API would answer it.

    Args:
        signatures: Those that this model has made.
    """
    if not isinstance(body, dict):
        return Refuse(code=400, message="Invalid JSON payload received.")
    try:
        problem = next(_problems(model, body, signatures), None)
    except (AttributeError, KeyError, TypeError) as error:  # a field of another type
        problem = f"Invalid JSON payload received. Invalid value ({type(error).__name__})"
    return Refuse(code=400, message=problem) if problem is not None else None


def _problems(model: str, body: Mapping[str, Any], signatures: Collection[str]) -> Iterator[str]:
    for name in set(body) - FIELDS:
        yield f'Invalid JSON payload received. Unknown name "{name}": Cannot find field.'
    contents = body.get("contents") or []
    if not contents:
        yield "* GenerateContentRequest.contents: contents is not specified"
    for number, content in enumerate(contents):
        if content.get("role", "user") not in ("user", "model"):
            yield "Please use a valid role: user, model."
        if not content.get("parts"):
            yield f"* GenerateContentRequest.contents[{number}].parts: contents.parts must not be empty."
        for part in content["parts"]:
            yield from _of_part(number, part)
    yield from _of_calls(contents)
    yield from _of_signatures(model, contents, signatures)
    yield from _of_tools(body)
    yield from _of_settings(model, body.get("generationConfig") or {})
    if contents[-1].get("role", "user") != "user":
        yield "Please ensure that multiturn requests end with a user turn or a function response."


def _of_part(number: int, part: Part) -> Iterator[str]:
    data = [name for name in ("text", "inlineData", "functionCall", "functionResponse", "fileData") if name in part]
    if len(data) != 1 or part.get("text") == "":
        yield (
            f"* GenerateContentRequest.contents[{number}].parts: required oneof field 'data' must have one initialized "
            "field"
        )
    if "inlineData" in part:
        if part["inlineData"].get("mimeType") not in MEDIA_TYPES:
            yield f"Unsupported MIME type: {part['inlineData'].get('mimeType')}"
        try:
            base64.b64decode(part["inlineData"]["data"].translate(str.maketrans("-_", "+/")), validate=True)
        except (binascii.Error, ValueError):
            yield "Invalid value at 'inline_data.data' (TYPE_BYTES), Base64 decoding failed"
    for kind, field in (("functionCall", "args"), ("functionResponse", "response")):
        if kind in part:
            if not NAME.fullmatch(part[kind].get("name", "")):
                yield f"GenerateContentRequest.contents[{number}]: [FIELD_INVALID] Invalid function name."
            if not isinstance(part[kind].get(field, {}), dict):
                yield f"Invalid value at 'contents[{number}].parts.{kind}.{field}' (type.googleapis.com/Struct)"


def _of_calls(contents: list[Mapping[str, Any]]) -> Iterator[str]:
    for number, content in enumerate(contents):
        calls = [part["functionCall"] for part in content["parts"] if "functionCall" in part]
        results = [part["functionResponse"] for part in content["parts"] if "functionResponse" in part]
        before: Mapping[str, Any] = contents[number - 1] if number else {"role": "model", "parts": []}
        if calls and before.get("role", "user") != "user":
            yield (
                "Please ensure that function call turn comes immediately after a user turn or after a function "
                "response turn."
            )
        called = [part["functionCall"] for part in before["parts"] if "functionCall" in part]
        if (called or results) and len(called) != len(results):
            yield (
                "Please ensure that the number of function response parts is equal to the number of function call "
                "parts of the function call turn."
            )
        key = "id" if all("id" in one for one in called + results) else "name"
        if sorted(one[key] for one in called) != sorted(one[key] for one in results):
            yield f"Please ensure that each function response has the {key} of its function call."
    if any("functionCall" in part for part in contents[-1]["parts"]):
        yield "Please ensure that function call turn is followed by a function response turn."


def _of_signatures(model: str, contents: list[Mapping[str, Any]], signatures: Collection[str]) -> Iterator[str]:
    """Check the first call of each step of the present turn, which begins with the user's last text.

    Source: …/thought-signatures, "Signatures in function calling parts": strict validation.
    """
    begin = max((number for number, one in enumerate(contents) if _is_said(one)), default=0)
    for number, content in enumerate(contents):
        first = True
        for part in content["parts"]:
            signature = _undisguised(part.get("thoughtSignature", ""))
            if signature and signature not in (*signatures, *DUMMIES):
                yield "Corrupted thought signature."
            if "functionCall" in part:
                if first and not signature and number >= begin and thinks_by_level(model):
                    yield MISSING.format(part["functionCall"]["name"], number + 1)
                first = False


def _undisguised(signature: str) -> str:
    """Return a dummy value in plain; the SDK's field is of bytes, so it goes over the wire in base64."""
    if signature in DUMMIES:
        return signature
    plain = {base64.urlsafe_b64encode(one.encode()).decode(): one for one in DUMMIES}
    return plain.get(signature, signature.translate(str.maketrans("-_", "+/")))


def _is_said(content: Mapping[str, Any]) -> bool:
    return content.get("role", "user") == "user" and all("functionResponse" not in part for part in content["parts"])


def _of_tools(body: Mapping[str, Any]) -> Iterator[str]:
    declared = [one for tool in body.get("tools") or () for one in tool.get("functionDeclarations") or ()]
    names = [one.get("name", "") for one in declared]
    for number, one in enumerate(declared):
        where = f"tools[0].function_declarations[{number}]"
        if not NAME.fullmatch(one.get("name", "")):
            yield f"{where}.name: [FIELD_INVALID] Invalid function name. Must start with a letter or an underscore."
        schema = one.get("parametersJsonSchema")
        if schema is not None:
            if schema.get("type") != "object" or not schema.get("properties"):
                yield f"{where}.parameters.properties: should be non-empty for OBJECT type"
            yield from _of_schema(schema, where)
    if len(set(names)) < len(names):
        yield "Duplicate function declaration found"
    config = (body.get("toolConfig") or {}).get("functionCallingConfig") or {}
    allowed = config.get("allowedFunctionNames") or ()
    if config and config.get("mode", "AUTO") not in MODES:
        yield "Invalid value at 'tool_config.function_calling_config.mode'"
    if config.get("mode") in ("ANY", "VALIDATED") and not declared:
        yield "Function calling config is set without function_declarations."
    if allowed and config.get("mode") not in ("ANY", "VALIDATED"):
        yield "allowed_function_names should only be set when the mode is ANY."
    if not set(allowed) <= set(names):
        yield "allowed_function_names should be names of the declared functions"


def _of_schema(schema: Any, where: str) -> Iterator[str]:
    if not isinstance(schema, dict):
        return
    for name in set(schema) - KEYWORDS:
        yield f"Invalid JSON payload received. Unknown name \"{name}\" at '{where}.parameters': Cannot find field."
    if "$ref" in schema and any(not name.startswith("$") for name in schema):
        yield f"{where}: no other fields may be set beside $ref"
    nested = [schema.get("items"), schema.get("additionalProperties"), *(schema.get("properties") or {}).values()]
    for name in ("anyOf", "oneOf", "prefixItems"):
        nested += schema.get(name) or []
    for inner in (*nested, *(schema.get("$defs") or {}).values()):
        yield from _of_schema(inner, where)


def _of_settings(model: str, settings: Mapping[str, Any]) -> Iterator[str]:
    thinking = settings.get("thinkingConfig") or {}
    if "thinkingBudget" in thinking and "thinkingLevel" in thinking:
        yield "You can only set only one of thinking budget and thinking level."
    level = thinking.get("thinkingLevel")
    if level is not None and not thinks_by_level(model):
        yield "Thinking level is not supported for this model."
    if level is not None and level not in LEVELS:
        yield f"Invalid value at 'generation_config.thinking_config.thinking_level' : {level!r}"
    if level == "MINIMAL" and re.search(r"gemini-3\.[78]-flash$|gemini-4|-pro", model):
        yield f"Thinking level MINIMAL is not supported for this model: {model}."
    if thinking.get("thinkingBudget") == 0 and "2.5-pro" in model:
        yield "Budget 0 is invalid. This model only works in thinking mode."
    if not 0 <= settings.get("temperature", 1) <= 2:
        yield "temperature must be in the range [0.0, 2.0]."
    if settings.get("maxOutputTokens", 1) < 1:
        yield "max_output_tokens must be positive."
