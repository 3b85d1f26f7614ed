"""A conversation through Anthropic's SDK; run by the interpreter that has it.

    python anthropic_sdk.py http://127.0.0.1:1234

Prints its observations as one line of JSON. Imports nothing of vivavoce.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

import anthropic

LIMIT = 60.0

WEATHER = {
    "name": "weather",
    "description": "Tell the weather.",
    "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}
SYSTEM = [{"type": "text", "text": "Be brief. " * 20, "cache_control": {"type": "ephemeral"}}]
THINKING = {"type": "adaptive"}


async def stream(client: Any, messages: list[Any], **fields: Any) -> dict[str, Any]:
    """Read a streamed answer with the SDK's accumulator, which checks each event."""
    texts: list[str] = []
    async with client.messages.stream(
        model="claude-haiku-5-5", max_tokens=2000, system=SYSTEM, tools=[WEATHER], messages=messages, **fields
    ) as answer:
        async for text in answer.text_stream:
            texts.append(text)
        message = await answer.get_final_message()
    return {"texts": texts, **message.to_dict(mode="json")}


async def failure(call: Any) -> dict[str, Any]:
    """Return the facts of the error of a call."""
    try:
        await call
    except anthropic.APIStatusError as error:
        body = error.body if isinstance(error.body, dict) else {}
        wait = error.response.headers.get("retry-after")
        kind = body.get("error", {}).get("type")
        return {"class": type(error).__name__, "status": error.status_code, "type": kind, "wait": wait}
    except Exception as error:  # noqa: BLE001 - the SDK passes the errors of its HTTP library on
        return {"class": type(error).__name__}
    return {}


async def main(url: str) -> dict[str, Any]:
    """Hold the conversation."""
    client: Any = anthropic.AsyncAnthropic(api_key="secret", base_url=url, max_retries=0)
    asked = {"role": "user", "content": "The weather in Oslo and Rome?"}
    seen: dict[str, Any] = {"models": [model.id async for model in client.models.list()]}
    called = await stream(client, [asked], thinking=THINKING)
    results = [
        {"type": "tool_result", "tool_use_id": block["id"], "content": f"cold in {block['input']['city']}"}
        for block in called["content"]
        if block["type"] == "tool_use"
    ]
    history = [asked, {"role": "assistant", "content": called["content"]}, {"role": "user", "content": results}]
    seen |= {"called": called, "told": await stream(client, history, thinking=THINKING)}
    changed = [{"role": "user", "content": "Something else?"}, *history[1:]]
    seen["changed"] = await failure(stream(client, changed, thinking=THINKING))
    seen["whole"] = (await client.messages.create(model="claude-haiku-5-5", max_tokens=10, messages=[asked])).to_dict(
        mode="json"
    )
    seen["refused"] = await stream(client, [asked])
    seen["failures"] = [await failure(stream(client, [asked])) for _ in range(4)]
    seen["no_result"] = await failure(stream(client, [*history[:2], asked]))
    await client.close()
    return seen


if __name__ == "__main__":
    print(json.dumps(asyncio.run(asyncio.wait_for(main(json.load(sys.stdin)["url"]), LIMIT))))
