"""An appointment by tasks, which return typed results; offline: `vivavoce dev examples/appointment.py`.

A task talks to the caller until it has its result, and gives the conversation back to the code that awaits it.
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel

from vivavoce.agents import Agent, AgentSession, JobContext, function_tool
from vivavoce.agents.tasks import AgentTask, AskYesOrNo, TaskError, TaskOptions
from vivavoce.pipelines import CascadingPipeline
from vivavoce.plugins import espeak, pocketsphinx, rules, silero

CALLER = "#JSGF V1.0; grammar caller; public <turn> = [on] (monday | friday | sunday) | at (seven | eight) | yes | no;"
TALK = rules.SlotFilling(
    slots=(
        rules.Slot(name="day", parser=rules.days(), ask="For which day?"),
        rules.Slot(name="time", parser=rules.times(), ask="At what time?", say=rules.time_in_words),
    ),
    tool="propose",
    failed="We are closed then.",
    retry="Which other day?",
)


class Appointment(BaseModel):
    """pydantic checks it: for another day the model's tool call fails, and it asks again."""

    day: Literal["monday", "friday"]
    time: str


class GetAppointment(AgentTask[Appointment]):
    def __init__(self) -> None:
        super().__init__("Find out the day and the time of the appointment.", options=TaskOptions(max_turns=10))

    async def on_enter(self) -> None:
        await self.session.say("For which day, and at what time?")

    @function_tool
    async def propose(self, day: str, time: str) -> None:
        "Note the day and the time."
        self.complete({"day": day, "time": time})  # type: ignore[arg-type]  # a dict validates too


class Clerk(Agent):
    async def on_enter(self) -> None:
        await self.session.say("Hello, this is the dentist.")
        try:
            appointment = await GetAppointment()
            is_right = await AskYesOrNo(f"{appointment.day} at {appointment.time}. Is that right?")
        except TaskError as error:  # `error.outcome` says why: declined, out_of_turns, out_of_time …
            await self.session.say("Then please call again.")
            print("no appointment:", error.outcome, flush=True)
            return
        await self.session.say("It is booked. Goodbye." if is_right else "Then nothing is booked. Goodbye.")
        print("booked:", appointment if is_right else None, flush=True)


async def entrypoint(ctx: JobContext) -> None:
    tts = espeak.TTS()
    ctx.add_shutdown_callback(tts.aclose)
    stt, llm = pocketsphinx.STT(grammar=CALLER), rules.LLM(TALK)
    pipeline = CascadingPipeline(vad=silero.VAD(), stt=stt, llm=llm, tts=tts)
    await AgentSession(Clerk("You make appointments."), pipeline).start()


if __name__ == "__main__":
    raise SystemExit("this is an app, which a worker runs: vivavoce dev examples/appointment.py")
