"""The twin of Anthropic's server: the Messages API on loopback, played from a script, for tests without a key.

    async with Twin() as twin:
        twin.add(Answer("Let me look.", Call("weather", {"city": "Oslo"})), Answer("It is cold."), Refuse(529))
        llm = anthropic.LLM(model="claude-haiku-5-5", base_url=twin.url, api_key="any")
        …
        assert twin.requests[1].body["messages"][-1]["content"][0]["type"] == "tool_result"

It checks each request as the documentation says that the API does, and refuses with the API's own kinds of errors; it
signs thoughts and checks the signatures that come back; it keeps a prompt cache, so that the usage shows hits. Clients
written elsewhere prove it: Anthropic's SDK and livekit-agents' plugin (tests/plugins/anthropic/test_provers.py).

Sources: the types of the package anthropic 2.14.0 (import path `anthropic.types`), and
https://platform.claude.com/docs/en/api/messages, …/api/errors, …/build-with-claude/streaming, …/prompt-caching,
…/thinking, …/preserved-thinking, …/agents-and-tools/tool-use. It was not compared with the live server.
"""

from vivavoce.plugins.anthropic.twin.script import CUT, HANG, Answer, Call, Fail, Fault, Raw, Refuse, Step, Thought
from vivavoce.plugins.anthropic.twin.server import Received, Twin

__all__ = ["CUT", "HANG", "Answer", "Call", "Fail", "Fault", "Raw", "Received", "Refuse", "Step", "Thought", "Twin"]
