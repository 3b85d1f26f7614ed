"""A receptionist hands the caller over to another agent, and back; offline: `vivavoce dev examples/receptionist.py`.

The model here is a script, so that the example needs no keys; with a language model the tools' descriptions decide.
"""

from __future__ import annotations

from vivavoce.agents import Agent, AgentSession, JobContext, function_tool
from vivavoce.pipelines import CascadingPipeline
from vivavoce.pipelines.llm.tools import ToolCall
from vivavoce.pipelines.testing import ScriptedLLM
from vivavoce.plugins import espeak, pocketsphinx, silero

CALLER = (
    "#JSGF V1.0; grammar caller; "
    "public <turn> = my bill [please] | when do you open | how much is it | back to reception | goodbye;"
)


class Receptionist(Agent):
    """Answers the phone. The tool that returns an agent hands the conversation over to it."""

    def __init__(self, *, is_back: bool = False) -> None:
        super().__init__("You are the receptionist of a hotel. Hand questions about bills over.", id="reception")
        self.greeting = "Reception again." if is_back else "Corner hotel, how can I help?"

    async def on_enter(self) -> None:
        await self.session.say(self.greeting)

    @function_tool
    async def to_billing(self) -> Agent:
        "Hand the caller over to billing, for questions about a bill."
        return Billing()

    @function_tool
    async def opening_hours(self) -> str:
        "Look up when the reception is open."
        return "day and night"


class Billing(Agent):
    """Has the conversation and its history, with instructions and tools of its own."""

    def __init__(self) -> None:
        super().__init__("You answer questions about bills. Hand everything else back.", id="billing")

    async def on_enter(self) -> None:
        await self.session.say("Billing here. What is your question?")

    @function_tool
    async def look_up_bill(self) -> str:
        "Look up the caller's bill."
        return "90 euros"

    @function_tool
    async def to_reception(self) -> Agent:
        "Hand the caller back to the reception."
        return Receptionist(is_back=True)


def call(tool: str) -> list[ToolCall]:
    return [ToolCall(call_id=f"call_{tool}", name=tool, arguments="{}")]


async def entrypoint(ctx: JobContext) -> None:
    tts = espeak.TTS()
    ctx.add_shutdown_callback(tts.aclose)
    llm = ScriptedLLM(default="Pardon?")
    llm.when("bill", call("to_billing")).when("open", call("opening_hours"), "We are open day and night.")
    llm.when("how much", call("look_up_bill"), "It is ninety euros.").when("back", call("to_reception"))
    pipeline = CascadingPipeline(vad=silero.VAD(), stt=pocketsphinx.STT(grammar=CALLER), llm=llm, tts=tts)
    await AgentSession(Receptionist(), pipeline).start()


if __name__ == "__main__":
    raise SystemExit("this is an app, which a worker runs: vivavoce dev examples/receptionist.py")
