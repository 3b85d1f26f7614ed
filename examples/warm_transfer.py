"""A warm transfer: the caller is on hold while a colleague is briefed, then the two talk (docs/telephony.md).

`vivavoce start examples/warm_transfer.py`, with your server's keys and `SIP_TRUNK` (`ST_…`) in the environment;
`HOLD_MUSIC` names an audio file. With an OPENAI_API_KEY the parts are OpenAI's; without one they are scripted.
"""

import os

from vivavoce.agents import (
    Agent,
    AgentSession,
    BackgroundAudioConfig,
    JobContext,
    SessionOptions,
    ToolError,
    Worker,
    function_tool,
)
from vivavoce.agents.telephony import Briefing, TelephonyOptions
from vivavoce.pipelines import CascadingPipeline
from vivavoce.pipelines.llm.tools import ToolCall
from vivavoce.pipelines.testing import ScriptedLLM, ScriptedSTT, ScriptedTTS, ScriptedVAD

COLLEAGUE = "+15550123"


class Host(Agent):
    def __init__(self) -> None:
        super().__init__("You answer the telephone of a bicycle shop. Connect callers who want a person with one.")

    async def on_enter(self) -> None:
        await self.session.say("Bicycle shop, hello! How can I help you?")

    @function_tool
    async def connect_with_person(self) -> str:
        "Connect the caller with a person."
        self.session.say("One moment, please.")  # type: ignore[unused-awaitable]  # heard while the telephone rings
        desk = AgentSession(briefing(self.session), make_pipeline())
        outcome = await self.session.telephony.warm_transfer(COLLEAGUE, desk, ringing_timeout=25.0)
        if not outcome.is_answered:  # the caller is off hold again
            raise ToolError("Nobody can take the call now. Offer to call back.")
        return "connected"


def briefing(session: AgentSession) -> Briefing:
    """Return the agent that talks with the colleague, by the model's words or by ours."""
    if os.environ.get("OPENAI_API_KEY"):
        return Briefing(history=session.history)
    said = session.history.messages("user")[-1].content
    return Briefing(f"A caller says: {said}. Press 1 to take the call, or 2 to decline it.")


def make_pipeline() -> CascadingPipeline:
    if os.environ.get("OPENAI_API_KEY"):
        from vivavoce.plugins import openai, silero

        return CascadingPipeline(vad=silero.VAD(), stt=openai.STT(), llm=openai.LLM(), tts=openai.TTS())
    call = ToolCall(call_id="call_1", name="connect_with_person", arguments="{}")
    llm = ScriptedLLM([call], default="Nobody is free. Shall we call you back?")
    return CascadingPipeline(vad=ScriptedVAD(), stt=ScriptedSTT(), llm=llm, tts=ScriptedTTS())


async def entrypoint(ctx: JobContext) -> None:
    music = os.environ.get("HOLD_MUSIC")
    background = None if music is None else BackgroundAudioConfig(music, hold_only=True)
    options = SessionOptions(telephony=TelephonyOptions(trunk=os.environ["SIP_TRUNK"]))
    session = AgentSession(Host(), make_pipeline(), background_audio=background, options=options)
    await session.start()


worker = Worker(entrypoint, agent_name="shop")  # with a name, no job comes for the room of the briefing

if __name__ == "__main__":
    raise SystemExit("this is an app, which a worker runs: vivavoce dev examples/warm_transfer.py")
