"""An agent on a speech-to-speech model: `OPENAI_API_KEY=… vivavoce dev examples/realtime_agent.py`.

One model hears, thinks and speaks; its server decides when the caller's turn is over. `OPENAI_BASE_URL` and
`REALTIME_MODEL` name another server that speaks OpenAI's Realtime protocol: Azure, or a test's.
"""

from __future__ import annotations

import os

from vivavoce.agents import Agent, AgentSession, JobContext, function_tool
from vivavoce.agents.events import ConnectionReplaced
from vivavoce.pipelines import RealtimePipeline
from vivavoce.plugins import openai


class Host(Agent):
    def __init__(self) -> None:
        super().__init__("You take table bookings. Be brief.")

    @function_tool
    async def book(self, day: str) -> str:
        "Book a table."
        return f"booked: {day}"

    async def on_enter(self) -> None:
        await self.session.reply("Greet the caller and ask for the day.")


def make_session() -> AgentSession[None]:
    """Return a session on the model."""
    model = openai.RealtimeModel(
        model=os.environ.get("REALTIME_MODEL"), base_url=os.environ.get("OPENAI_BASE_URL"), api_key=None
    )
    session = AgentSession(Host(), RealtimePipeline(model))
    session.on(ConnectionReplaced, lambda event: print(f"a new connection ({event.reason}), gap {event.gap:.2f} s"))
    return session


async def entrypoint(ctx: JobContext) -> None:
    await make_session().start()


if __name__ == "__main__":
    raise SystemExit("this is an app, which a worker runs: vivavoce dev examples/realtime_agent.py")
