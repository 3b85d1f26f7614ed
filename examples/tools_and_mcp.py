"""Tools of your own and of an MCP server, in a conversation without keys: `python examples/tools_and_mcp.py`.

A script replaces the model, so this runs anywhere (extra `mcp`). With a real one, the agent goes into a session:
`AgentSession(Librarian(), CascadingPipeline(stt=…, llm=openai.LLM(), tts=…, vad=…))`.
"""

import sys
from pathlib import Path
from typing import Annotated

import anyio
from pydantic import Field

from vivavoce.agents import Agent, MCPServerStdio, RunContext, ToolError, function_tool
from vivavoce.agents.events import HistoryItemAdded, ToolCalled, TurnCompleted
from vivavoce.agents.testing import ScriptedLLM, SessionHarness
from vivavoce.pipelines.llm.chat_context import ChatMessage
from vivavoce.pipelines.llm.tools import ToolCall

SERVER = Path(__file__).with_name("library_server.py")


class Librarian(Agent):
    def __init__(self) -> None:
        # A child process; for a server at a URL: MCPServerHTTP(url, headers=…).
        library = MCPServerStdio(sys.executable, [str(SERVER)], name="library", allowed_tools=["shelf_of"])
        super().__init__("You help in a library. Be brief.", mcp_servers=[library])

    @function_tool
    async def reserve(self, context: RunContext, title: Annotated[str, Field(description="The book's title.")]) -> str:
        "Reserve a book at another branch."
        if title == "Hamlet":
            raise ToolError("Plays are not lent.")  # the model sees this text; of other errors it sees only the kind
        context.disallow_interruptions()  # the next steps have effects, so the caller hears of them
        _ = context.update("One moment, I am asking the other branch.")  # spoken while the tool continues
        await anyio.sleep(3.0)
        return f"{title} is reserved until friday"


MODEL = ScriptedLLM(
    [ToolCall(call_id="1", name="shelf_of", arguments='{"title": "Emma"}')],
    "Emma is on shelf three.",
    [ToolCall(call_id="2", name="reserve", arguments='{"title": "Persuasion"}')],
    "Done, it waits for you until friday.",
)


def show(event: HistoryItemAdded | ToolCalled) -> None:
    if isinstance(event, ToolCalled):
        print(f"  {event.tool} -> {event.output}", flush=True)
    elif isinstance(event.item, ChatMessage):
        print(f"{event.item.role}: {event.item.content}", flush=True)


async def main() -> None:
    async with SessionHarness(Librarian(), MODEL) as call:
        call.session.on(HistoryItemAdded, show)
        call.session.on(ToolCalled, show)
        for words in ("Where is Emma?", "Reserve Persuasion, please."):
            call.session.input.text(words)
            while (await call.next(TurnCompleted)).record.kind != "turn":
                continue  # speech of a running tool is a turn of its own


if __name__ == "__main__":
    anyio.run(main)
