"""The request to `streamGenerateContent`, sans-I/O.

The server reads a prefix that it has seen before for less money and sooner, without being told to, so a request changes
nothing before its end: instructions for one generation stand behind the words that it answers, and in front of the
calls of its own turn.

From Gemini 3 on the server refuses the first call of a step without the thought signature that came with it. A call of
another model, of another server or of the application has none: it gets the value that the documentation names for
this case. It stands in all steps, though the server checks the present turn only, so that the prefix stays the same.

Sources: https://ai.google.dev/api/generate-content, …/gemini-api/docs/thought-signatures (its FAQ names the value),
…/gemini-api/docs/function-calling, …/gemini-api/docs/caching (implicit caching); `types.py` and
`_GenerateContentParameters_to_mldev` in `models.py` of google-genai 3.6.1; `llm/_provider_format/google.py` of
livekit-agents 1.8.9 (results stand in a content of their own; an id goes back only if the server gave one).
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from vivavoce.pipelines.llm.base import GenerateRequest
from vivavoce.pipelines.llm.call_extra import unpack_extra
from vivavoce.pipelines.llm.transcript import NOTE, OPENING, Calls, Part, Words, is_from, split_at_turn
from vivavoce.plugins.google.calls import arguments_of, response_of
from vivavoce.plugins.google.options import LLMOptions
from vivavoce.plugins.google.schema import gemini_schema

Json = dict[str, Any]

NEXT = "It is your turn to speak."

NO_SIGNATURE = "skip_thought_signature_validator"
"""Stands for the signature of a call that the model did not make. Source: …/thought-signatures, FAQ."""

OTHER_CHARACTERS = re.compile(r"[^a-zA-Z0-9_.:-]")
"""Characters that the API refuses in the name of a function, which another provider may have called."""

MAX_NAME = 128
MODES = {"required": "ANY", "named": "ANY", "none": "NONE"}


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestDefaults:
    """The common values of all requests of one LLM.

    Args:
        maker: The name of the server and its model in the extras of its calls.
        thinking: The `thinkingConfig`; empty: the server decides.
        wants_signatures: Whether the server refuses calls without a thought signature.
    """

    maker: str
    options: LLMOptions
    thinking: Mapping[str, Any]
    wants_signatures: bool


class Conversation:
    """Puts the parts of a history into contents."""

    def __init__(self, defaults: RequestDefaults) -> None:
        self._defaults = defaults
        self.contents: list[Json] = []
        self._is_open = False
        """Whether the last content takes further parts; one with results does not."""

    def add(self, parts: Iterable[Part]) -> None:
        """Put further parts behind the others."""
        for part in parts:
            if isinstance(part, Calls):
                self._add_calls(part)
            elif made := _words(part):
                self._parts("model" if part.role == "assistant" else "user").extend(made)

    def add_note(self, text: str) -> None:
        """Put a note for the model behind the others."""
        self._parts("user").append({"text": NOTE.format(text)})

    def _add_calls(self, part: Calls) -> None:
        calls = self._parts("model")
        results: list[Json] = []
        for number, (call, output) in enumerate(part.pairs):
            own = unpack_extra(call.extra, self._defaults.maker)
            named = {"name": _name(call.name), **({"id": own["id"]} if own.get("id") else {})}
            made: Json = {"functionCall": {**named, "args": arguments_of(call.arguments)}}
            dummy = NO_SIGNATURE if self._defaults.wants_signatures and number == 0 else ""
            if signature := own.get("signature") or dummy:
                made["thoughtSignature"] = signature
            calls.append(made)
            results.append({"functionResponse": {**named, "response": response_of(output)}})
        self.contents.append({"role": "user", "parts": results})
        self._is_open = False

    def _parts(self, role: str) -> list[Json]:
        if not self.contents and role == "model":  # a call must stand behind the user's words
            self.add_note(OPENING)
        if not self._is_open or self.contents[-1]["role"] != role:
            self.contents.append({"role": role, "parts": []})
            self._is_open = True
        parts: list[Json] = self.contents[-1]["parts"]
        return parts


def request_body(request: GenerateRequest, defaults: RequestDefaults) -> Json:
    """Return the JSON of a request."""
    options = defaults.options
    before, since = split_at_turn(request)
    leading = next((n for n, part in enumerate(before) if not is_from(part, "system")), len(before))
    system = [request.instructions, *(part.text for part in before[:leading] if isinstance(part, Words))]
    talk = Conversation(defaults)
    talk.add(before[leading:])
    if request.extra_instructions.strip():
        talk.add_note(request.extra_instructions)
    talk.add(since)
    if not talk.contents or talk.contents[-1]["role"] == "model":
        talk.add_note(NEXT if talk.contents else OPENING)
    settings: Json = {
        "temperature": options.temperature,
        "maxOutputTokens": options.max_output_tokens,
        "thinkingConfig": dict(defaults.thinking) or None,
    }
    settings = {name: value for name, value in settings.items() if value is not None}
    extra = dict(options.extra_body)
    if isinstance(more := extra.get("generationConfig"), Mapping):
        extra["generationConfig"] = {**settings, **more}
    body: Json = {
        "systemInstruction": {"parts": texts} if (texts := [{"text": one} for one in system if one.strip()]) else None,
        "contents": talk.contents,
        **_tools(request),
        "generationConfig": settings,
    }
    return {**{name: value for name, value in body.items() if value}, **extra}


def _tools(request: GenerateRequest) -> Json:
    if not request.tools:
        return {}
    declarations: list[Json] = []
    for tool in request.tools:
        schema = tool.parameters_schema()
        declared: Json = {"name": tool.name, "description": tool.description}
        if schema.get("properties"):  # an object without properties is refused
            declared["parametersJsonSchema"] = {"type": "object", **gemini_schema(schema)}
        declarations.append({name: value for name, value in declared.items() if value})
    made: Json = {"tools": [{"functionDeclarations": declarations}]}
    mode, name = request.tool_choice.mode, request.tool_choice.name
    if mode in MODES:
        choice: Json = {"mode": MODES[mode], **({"allowedFunctionNames": [name]} if name else {})}
        made["toolConfig"] = {"functionCallingConfig": choice}
    return made


def _name(name: str) -> str:
    made = OTHER_CHARACTERS.sub("_", name)
    return (made if made[:1].isalpha() or made[:1] == "_" else f"_{made}")[:MAX_NAME]


def _words(words: Words) -> list[Json]:
    text = NOTE.format(words.text) if words.role == "system" else words.text
    parts: list[Json] = [{"text": text}] if text.strip() else []
    if words.role == "user":  # the API takes pictures from users only
        for image in words.images:
            data = base64.b64encode(image.data).decode("ascii")
            parts.append({"inlineData": {"mimeType": image.media_type, "data": data}})
    return parts
