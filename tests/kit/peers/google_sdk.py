"""Conversations through Google's SDK; run by the interpreter that has it.

The job: `{"url": "http://127.0.0.1:1234"}`. Prints its observations as one line of JSON. Imports nothing of vivavoce.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from google import genai
from google.genai import errors, types
from google.oauth2.credentials import Credentials

LIMIT = 60.0
MODEL = "gemini-3.8-flash"

WEATHER = types.FunctionDeclaration(
    name="weather",
    description="Tell the weather.",
    parameters_json_schema={"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
)


def config(**fields: Any) -> types.GenerateContentConfig:
    """Return settings with a tool."""
    return types.GenerateContentConfig(
        system_instruction="Be brief. " * 20,
        tools=[types.Tool(function_declarations=[WEATHER])],
        thinking_config=types.ThinkingConfig(thinking_level=types.ThinkingLevel.LOW),
        automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True),
        **fields,
    )


async def stream(client: Any, contents: Any, model: str = MODEL, **fields: Any) -> dict[str, Any]:
    """Read a streamed answer."""
    seen: dict[str, Any] = {"texts": [], "thoughts": [], "calls": [], "reason": "", "block": "", "usage": []}
    parts: list[Any] = []
    async for event in await client.aio.models.generate_content_stream(
        model=model, contents=contents, config=config(**fields)
    ):
        if event.prompt_feedback is not None:
            seen["block"] = event.prompt_feedback.block_reason
        if event.usage_metadata is not None:
            usage = event.usage_metadata
            seen["usage"] = [
                usage.prompt_token_count,
                usage.cached_content_token_count,
                usage.candidates_token_count,
                usage.thoughts_token_count,
            ]
        for candidate in event.candidates or ():
            seen["reason"] = candidate.finish_reason or seen["reason"]
            for part in candidate.content.parts if candidate.content else ():
                parts.append(part)
                if part.function_call is not None:
                    seen["calls"].append([part.function_call.name, part.function_call.args, part.function_call.id])
                elif part.text:
                    seen["thoughts" if part.thought else "texts"].append(part.text)
    seen["content"] = types.Content(role="model", parts=[one for one in parts if one.text != ""])
    return seen


async def failure(call: Any) -> dict[str, Any]:
    """Return the facts of the error of a call."""
    try:
        await call
    except errors.APIError as error:
        return {"class": type(error).__name__, "code": error.code, "status": error.status, "text": error.message}
    except Exception as error:  # noqa: BLE001 - the SDK passes the errors of its HTTP library on
        return {"class": type(error).__name__}
    return {}


async def main(url: str) -> dict[str, Any]:
    """Hold the conversations."""
    client: Any = genai.Client(api_key="secret", http_options={"base_url": url}, vertexai=False)
    asked = types.UserContent("The weather in Oslo and Rome?")
    seen: dict[str, Any] = {"models": [model.name async for model in await client.aio.models.list()]}
    called = await stream(client, [asked])
    results = types.Content(
        role="user",
        parts=[
            types.Part(
                function_response=types.FunctionResponse(
                    id=call_id, name=name, response={"output": f"cold in {args['city']}"}
                )
            )
            for name, args, call_id in called["calls"]
        ],
    )
    told = await stream(client, [asked, called["content"], results])
    for part in called["content"].parts:
        part.thought_signature = None
    seen["unsigned"] = await failure(stream(client, [asked, called["content"], results]))
    called["content"].parts[-2].thought_signature = b"skip_thought_signature_validator"
    seen["dummy"] = await stream(client, [asked, called["content"], results])
    seen |= {"called": called, "told": told}
    whole = await client.aio.models.generate_content(model=MODEL, contents=[asked])
    seen["whole"] = whole.text
    seen["withheld"] = [await stream(client, [asked]) for _ in range(2)]
    seen["failures"] = [await failure(stream(client, [asked])) for _ in range(4)]
    seen["no_model"] = await failure(stream(client, [asked], model="gemini-7"))
    cloud: Any = genai.Client(
        vertexai=True,
        project="a-project",
        location="europe-west4",
        credentials=Credentials(token="a-token"),  # type: ignore[no-untyped-call]
        http_options={"base_url": url},
    )
    seen["cloud"] = await stream(cloud, [asked])
    for one in (called, told, seen["dummy"], *seen["withheld"], seen["cloud"]):
        one.pop("content")
    return seen


if __name__ == "__main__":
    print(json.dumps(asyncio.run(asyncio.wait_for(main(json.load(sys.stdin)["url"]), LIMIT))))
