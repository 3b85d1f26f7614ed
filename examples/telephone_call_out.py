"""A call out through LiveKit's SIP service: to a person, or to a voicemail, which gets a message (docs/telephony.md).

`vivavoce start examples/telephone_call_out.py`, with your server's keys and `SIP_TRUNK` (`ST_…`) in the environment.
Then `lk dispatch create --new-room --agent-name reminder --metadata "+15550100"` calls that number.
"""

import logging
import os

from vivavoce.agents import Agent, AgentSession, JobContext, SessionOptions, ToolError, Worker, function_tool
from vivavoce.agents.telephony import MachineDetection, TelephonyOptions
from vivavoce.pipelines import CascadingPipeline
from vivavoce.plugins import espeak, pocketsphinx, rules, silero

DESK = "+15550123"
NAME = "This is the clinic, about an appointment."
REMINDER = "Hello! You have an appointment tomorrow at nine."
MESSAGE = f"{NAME} It is tomorrow at nine. Goodbye."
CALLER = "#JSGF V1.0; grammar caller; public <turn> = yes | no | goodbye;"
TALK = rules.SlotFilling(answers=(rules.Answer("yes|no", "Thank you."),))
logger = logging.getLogger(__name__)


class Reminder(Agent):
    def __init__(self, number: str) -> None:
        super().__init__("You remind people of their appointment. Transfer them to the desk if they want to change it.")
        self.number = number

    async def on_enter(self) -> None:
        outcome = await self.session.telephony.call(self.number, ringing_timeout=25.0)
        if outcome.is_answered:  # all timers begin now
            await self.reached()
            return
        logger.warning("Not reached: %s (%s)", outcome.status, outcome.reason)  # busy, declined, no_answer, no_route …
        await self.session.close()

    async def reached(self) -> None:
        telephony = self.session.telephony
        verdict = await telephony.answered_by()  # the agent says nothing before
        if verdict.kind == "screening":
            await self.session.say(NAME)
            verdict = await telephony.answered_by(again=True)
        if verdict.kind in ("human", "unknown"):
            await self.session.say(REMINDER)
            return
        if verdict.kind == "machine" and await telephony.wait_for_beep() != "hung_up":
            await self.session.say(MESSAGE, interruptible=False)
        await self.session.hangup()

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
    pipeline = CascadingPipeline(vad=silero.VAD(), stt=pocketsphinx.STT(grammar=CALLER), llm=rules.LLM(TALK), tts=tts)
    telephony = TelephonyOptions(trunk=os.environ["SIP_TRUNK"], machine_detection=MachineDetection())
    session = AgentSession(Reminder(ctx.job.metadata), pipeline, options=SessionOptions(telephony=telephony))
    await session.start()


worker = Worker(entrypoint, agent_name="reminder")

if __name__ == "__main__":
    raise SystemExit("this is an app, which a worker runs: vivavoce dev examples/telephone_call_out.py")
