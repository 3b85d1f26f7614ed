"""Saying, replying and interrupting from an agent's own code, without keys: `python examples/speaking.py`.

A script replaces the model and time is virtual, so it runs anywhere, at once; it prints the heard text. With a real
model and voice: `AgentSession(Guide(), CascadingPipeline(stt=…, llm=openai.LLM(), tts=…, vad=…))`.
"""

from collections.abc import AsyncIterator

from vivavoce.agents import Agent, function_tool
from vivavoce.agents.events import TurnCompleted
from vivavoce.agents.testing import ScriptedLLM, SessionHarness, ToolCall

STORY = "This ship lay under the ice for ninety years until two fishermen caught its bell in their net"


class Guide(Agent):
    def __init__(self) -> None:
        super().__init__("You are an audio guide in a museum. Be brief.")

    async def on_enter(self) -> None:
        # Awaited: played out. Neither the caller's voice nor interrupt() cuts it.
        await self.session.say("Welcome. This call is recorded.", interruptible=False)
        # The model's own words, by instructions for this one answer; without await, it plays while the code continues.
        _ = self.session.reply("Ask which room the caller stands in.")

    @function_tool
    async def tell(self, room: int) -> str:
        "Tell the story of a room."
        story = self.session.say(words_of(STORY))  # a stream: spoken as the text comes
        await story
        return "told" if story.outcome == "completed" else f"cut off after: {story.heard_text}"

    async def close_museum(self) -> None:
        """Called by the application, at any time."""
        await self.session.interrupt()  # the audio has stopped, and the queue is empty
        _ = self.session.say("We close in ten minutes.", priority=1)  # before all other queued speech
        _ = self.session.say("Please return the headphones.")
        farewell = self.session.reply("Say goodbye.", when_busy="queue")  # "discard" by default while another one runs
        await farewell


async def words_of(text: str) -> AsyncIterator[str]:
    for word in text.split():
        yield f"{word} "


MODEL = ScriptedLLM(
    "Which room are you in?",
    [ToolCall(call_id="1", name="tell", arguments='{"room": 4}')],
    "I have to stop here.",  # for the tool's result
    "Goodbye, and thank you for coming.",
)


async def visit(call: SessionHarness) -> None:
    await call.next(TurnCompleted)  # the question
    call.caller.types("Room four.")
    await call.until(5.5)
    guide = call.session.agent
    assert isinstance(guide, Guide)
    await guide.close_museum()


if __name__ == "__main__":
    museum = SessionHarness(Guide(), MODEL).run(visit)
    for turn in museum.session.turns:
        print(f"{turn.ended_at:5.1f} s  {turn.outcome:<11}  {turn.heard_text or '-'}")
