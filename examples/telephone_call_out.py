"""A call out through LiveKit's SIP service, and a transfer to a person (docs/telephony.md).

`vivavoce start examples/telephone_call_out.py`, with your server's keys and `SIP_TRUNK` (`ST_…`) in the environment.
Then `lk dispatch create --new-room --agent-name reminder --metadata "+15550100"` calls that number.
"""

import logging
import os

from vivavoce.agents import Agent, AgentSession, JobContext, SessionOptions, ToolError, Worker, function_tool
from vivavoce.agents.telephony import TelephonyOptions
from vivavoce.pipelines import CascadingPipeline
from vivavoce.plugins import espeak, pocketsphinx, rules, silero

DESK = "+15550123"
CALLER = "#JSGF V1.0; grammar caller; public <turn> = yes | no | goodbye;"
logger = logging.getLogger(__name__)


class Reminder(Agent):
    def __init__(self, number: str) -> None:
        super().__init__("You remind people of their appointment. Transfer them to the desk if they want to change it.")
        self.number = number

    async def on_enter(self) -> None:
        outcome = await self.session.telephony.call(self.number, ringing_timeout=25.0)
        if outcome.is_answered:  # all timers begin now
            await self.session.say("Hello! You have an appointment tomorrow at nine.")
            return
        logger.warning("Not reached: %s (%s)", outcome.status, outcome.reason)  # busy, declined, no_answer, no_route …
        await self.session.close()

    @function_tool
    async def transfer_to_desk(self) -> str:
        "Transfer the caller to a person at the desk."
        await self.session.say("One moment, please.")
        outcome = await self.session.telephony.transfer(DESK)
        if not outcome.is_answered:
            raise ToolError("The desk does not answer. Offer to call back.")
        return "transferred"


async def entrypoint(ctx: JobContext) -> None:
    tts = espeak.TTS()
    ctx.add_shutdown_callback(tts.aclose)
    talk = rules.LLM(rules.SlotFilling(slots=()))
    pipeline = CascadingPipeline(vad=silero.VAD(), stt=pocketsphinx.STT(grammar=CALLER), llm=talk, tts=tts)
    telephony = TelephonyOptions(trunk=os.environ["SIP_TRUNK"])
    session = AgentSession(Reminder(ctx.job.metadata), pipeline, options=SessionOptions(telephony=telephony))
    await session.start()


worker = Worker(entrypoint, agent_name="reminder")

if __name__ == "__main__":
    raise SystemExit("this is an app, which a worker runs: vivavoce dev examples/telephone_call_out.py")
