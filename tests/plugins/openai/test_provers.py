"""The twin, with the manners of each server, holds conversations with clients written elsewhere."""

from __future__ import annotations

from contextlib import AsyncExitStack

import pytest

from kit.peer_process import run_peer
from vivavoce.pipelines.testing.realtime_server.script import tone
from vivavoce.plugins.openai.twin import Answer, Heard, OpenAITwin, Spoken, chat_answer, chat_call, chat_end
from vivavoce.plugins.openai.twin.manners import MANNERS

FILTERED = {"error": {"message": "Filtered.", "type": None, "param": "prompt", "code": "content_filter", "status": 400}}


@pytest.mark.test_all("a second process costs ten seconds of a processor, and tries the twin alone")
@pytest.mark.e2e
@pytest.mark.timeout(120)
async def test_the_sdks_of_openai_and_groq_and_livekits_plugin_read_each_servers_answers() -> None:
    call = Answer(steps=[chat_call(0, "abc123XYZ", "book", "{}"), *chat_end("tool_calls")])
    async with AsyncExitStack() as stack:
        twins: dict[str, OpenAITwin] = {}
        for name in ("openai", *MANNERS):
            models = ("mine", "m") if name == "azure" else ()
            twins[name] = await stack.enter_async_context(OpenAITwin(name, models=models))  # type: ignore[arg-type]
            twins[name].add(chat_answer("Hello ", "there."), call)
        twins["openai"] = await stack.enter_async_context(OpenAITwin())
        twins["openai"].add(Heard(text="A table, please."), Spoken(pcm=tone(0.1)))
        twins["groq"].add(chat_answer("Hello ", "there."))
        twins["groq"].add(Heard(text="A table, please."), Spoken(pcm=tone(0.1), rate=48000))
        twins["azure"] = await stack.enter_async_context(OpenAITwin("azure", models=("mine", "m")))
        twins["azure"].add(
            chat_answer("Hi."), Answer(status=400, body=FILTERED), chat_answer("Hi."), chat_answer("Hi there.")
        )
        seen = await run_peer("openai_clients.py", {"urls": {name: twin.url for name, twin in twins.items()}})

    for name, (told, called) in seen["chats"].items():
        text = "<think>They greet me.</think>\n\nHello there." if name == "ollama" else "Hello there."
        assert (told["text"], told["error"]) == (text, None), name
        assert told["finish"] == ("eos" if name == "together" else "stop")
        assert told["usage"]["prompt_tokens"] == 12, name
        if name == "perplexity":
            assert called["error"]["text"].startswith("Error code: 400")
        else:
            assert called["calls"][0][1:] == ["book", "{}"], name
    assert {name for name, (told, _) in seen["chats"].items() if told["thoughts"]} == {
        "cerebras",
        "deepseek",
        "vllm",
        "xai",
    }
    heard = {"text": "A table, please.", "words": ["A", "table", "please"], "end": 0.5}
    assert seen["openai"] == {**heard, "rate": 24000}
    assert seen["groq"]["audio"] == {**heard, "rate": 48000}
    assert (seen["groq"]["chat"]["text"], seen["groq"]["chat"]["usage"]["completion_tokens"]) == ("Hello there.", 7)
    hello, filtered, missing, by_token = seen["azure"]
    assert (hello["text"], by_token["text"]) == ("Hi.", "Hi.")
    assert (filtered["error"]["status"], filtered["error"]["code"]) == (400, "content_filter")
    assert (missing["error"]["status"], missing["error"]["code"]) == (404, "DeploymentNotFound")
    assert seen["livekit"] == {"text": "Hi there.", "error": ""}
    paths = [request.path for request in twins["azure"].requests]
    assert paths.count("/openai/deployments/mine/chat/completions") == 3
    assert paths.count("/openai/v1/chat/completions") == 1
