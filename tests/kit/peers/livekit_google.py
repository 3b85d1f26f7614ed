"""A conversation through livekit-plugins-google; run by the interpreter that has livekit-agents.

The job: `{"url": "http://127.0.0.1:1234"}`. Prints its observations as one line of JSON. Imports nothing of vivavoce.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from google.genai import types
from livekit.agents import APIError, function_tool, llm
from livekit.agents.types import APIConnectOptions
from livekit.plugins import google

LIMIT = 60.0
ONCE = APIConnectOptions(max_retry=0)


@function_tool  # type: ignore[untyped-decorator]
async def weather(city: str) -> str:
    """Tell the weather."""
    return f"cold in {city}"


async def read(model: Any, context: llm.ChatContext) -> dict[str, Any]:
    """Read an answer."""
    seen: dict[str, Any] = {"text": "", "calls": [], "error": "", "usage": []}
    try:
        async with model.chat(chat_ctx=context, tools=[weather], conn_options=ONCE) as answer:
            async for chunk in answer:
                if chunk.delta is not None:
                    seen["text"] += chunk.delta.content or ""
                    seen["calls"] += [[call.call_id, call.name, call.arguments] for call in chunk.delta.tool_calls]
                if chunk.usage is not None:
                    seen["usage"] = [chunk.usage.prompt_tokens, chunk.usage.prompt_cached_tokens]
    except APIError as error:
        seen["error"] = f"{type(error).__name__} {getattr(error, 'status_code', '')} {error.retryable}"
    return seen


async def main(url: str) -> dict[str, Any]:
    """Hold the conversation."""
    model = google.LLM(
        model="gemini-3.8-flash",
        api_key="secret",
        http_options=types.HttpOptions(base_url=url),
        thinking_config={"thinking_level": "low"},
    )
    context = llm.ChatContext.empty()
    context.add_message(role="system", content="Be brief. " * 20)
    context.add_message(role="user", content="The weather in Oslo and Rome?")
    first = await read(model, context)
    for call_id, name, arguments in first["calls"]:
        context.items.append(llm.FunctionCall(call_id=call_id, name=name, arguments=arguments, group_id="step"))
    for call_id, name, arguments in first["calls"]:
        output = await weather(**json.loads(arguments))
        context.items.append(llm.FunctionCallOutput(call_id=call_id, name=name, output=output, is_error=False))
    second = await read(model, context)
    failed = [await read(model, context) for _ in range(3)]
    await model.aclose()
    return {"first": first, "second": second, "failed": failed}


if __name__ == "__main__":
    print(json.dumps(asyncio.run(asyncio.wait_for(main(json.load(sys.stdin)["url"]), LIMIT))))
