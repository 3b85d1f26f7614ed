"""A file of JSON lines for each session, one for each item of the history: `python examples/history_as_json_lines.py`.

To keep conversations and go on with them, give the session a store: `MemoryOptions(store=SqliteStore("calls.db"))`."""

import json
from pathlib import Path
from typing import Any

import anyio

from vivavoce.agents import Agent, AgentSession, ChatContext
from vivavoce.agents.events import HistoryItemAdded
from vivavoce.agents.transports import TextTransport
from vivavoce.pipelines import CascadingPipeline
from vivavoce.plugins import rules

DAY = rules.Slot(name="day", parser=rules.days(), ask="For which day?")
TALK = rules.SlotFilling(slots=(DAY,), done="We will see you on {day}.")


def keep_as_json_lines(session: AgentSession[Any], folder: Path) -> None:
    """Have each new item of the session's history appended to `<folder>/<session id>.jsonl`, in order."""

    async def append(event: HistoryItemAdded) -> None:  # an async handler has a queue of its own: no turn waits for it
        line = json.dumps(ChatContext([event.item]).to_json()["items"][0])
        async with await anyio.open_file(folder / f"{session.id}.jsonl", "a", encoding="utf-8") as file:
            await file.write(line + "\n")

    session.on("history_item_added", append)


async def main(folder: Path) -> None:
    chat = TextTransport()
    async with AgentSession(Agent("You take bookings."), CascadingPipeline(llm=rules.LLM(TALK))) as session:
        keep_as_json_lines(session, folder)
        await session.start(chat)
        chat.send("on friday")
        async for piece in chat:
            if piece.is_final:
                break


if __name__ == "__main__":
    anyio.run(main, Path())
