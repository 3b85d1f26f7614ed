"""Push-to-talk: the caller's page says when a turn begins and ends; offline: `vivavoce dev examples/push_to_talk.py`.

A client calls the agent's RPC methods: `start_turn` when its button is pressed (the agent falls silent), `end_turn`
when it is released (the agent answers), `cancel_turn` to take the turn back. Between turns the agent hears silence.
"""

from __future__ import annotations

from livekit import rtc

from vivavoce.agents import Agent, AgentSession, EndpointingOptions, JobContext, SessionOptions
from vivavoce.pipelines import CascadingPipeline
from vivavoce.plugins import espeak, pocketsphinx, rules, silero

CALLER = "#JSGF V1.0; grammar caller; public <turn> = [on] (friday | saturday) | goodbye;"
TALK = rules.SlotFilling(
    slots=(rules.Slot(name="day", parser=rules.days(), ask="For which day?"),),
    done="We will see you on {day}.",
)


class Button:
    """Turns the calls of the caller's button into turns of the session."""

    def __init__(self, session: AgentSession[None]) -> None:
        self.session = session
        self.is_held = False

    def connect(self, room: rtc.Room) -> None:
        for method in (self.start_turn, self.end_turn, self.cancel_turn):
            room.local_participant.register_rpc_method(method.__name__, method)

    async def start_turn(self, data: rtc.RpcInvocationData) -> str:
        self.session.interrupt()  # type: ignore[unused-awaitable]  # it acts when called
        self.is_held = True
        self.session.input.clear_turn()
        self.session.input.mute(False)
        return "ok"

    async def end_turn(self, data: rtc.RpcInvocationData) -> str:
        self.session.input.commit_turn()
        self.release()
        return "ok"

    async def cancel_turn(self, data: rtc.RpcInvocationData) -> str:
        self.session.input.clear_turn()
        self.release()
        return "ok"

    def release(self) -> None:
        self.session.input.mute()
        self.is_held = False


class Host(Agent):
    async def on_enter(self) -> None:
        self.session.input.mute()
        await self.session.say("Hold the button and say a day.")


async def entrypoint(ctx: JobContext) -> None:
    tts = espeak.TTS()
    ctx.add_shutdown_callback(tts.aclose)
    stt, llm = pocketsphinx.STT(grammar=CALLER), rules.LLM(TALK)
    pipeline = CascadingPipeline(vad=silero.VAD(), stt=stt, llm=llm, tts=tts)
    options = SessionOptions(endpointing=EndpointingOptions(mode="manual"))  # only `commit_turn()` ends a turn
    session = AgentSession(Host("You take bookings."), pipeline, options=options)
    button = Button(session)
    await ctx.connect()
    button.connect(ctx.room)  # before `start()`, which returns after the greeting
    await session.start()
    if not button.is_held:
        session.input.mute()  # `on_enter` does not run again in a call that goes on after a crash


if __name__ == "__main__":
    raise SystemExit("this is an app, which a worker runs: vivavoce dev examples/push_to_talk.py")
