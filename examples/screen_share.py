"""An agent that sees the caller's screen; needs OPENAI_API_KEY and the extras `openai`, `video` and `silero`.

Run it with a LiveKit server: vivavoce start examples/screen_share.py --url … --api-key … --api-secret …
"""

from vivavoce.agents import Agent, AgentSession, JobContext, RoomOptions, VideoInputOptions, WakeUp
from vivavoce.pipelines import CascadingPipeline
from vivavoce.plugins import openai, silero

# A picture a second at most, and only if something has changed: three with a question, six with the whole conversation.
SCREEN = RoomOptions(video_input=VideoInputOptions(source="screen", max_turn_images=3, max_images=6))


class Helper(Agent):
    def __init__(self) -> None:
        super().__init__("You help with programs. You see the caller's screen. Answer in one or two sentences.")

    async def on_enter(self) -> None:
        await self.session.say("Hello! Share your screen, and ask me about it.")

    async def offer_help(self, level: int) -> None:
        frames = self.session.input.frames(2)
        if frames:
            await self.session.reply("The caller is silent. Say what you see, and offer help.", frames=frames)


async def entrypoint(ctx: JobContext) -> None:
    pipeline = CascadingPipeline(vad=silero.VAD(), stt=openai.STT(), llm=openai.LLM(), tts=openai.TTS())
    helper = Helper()
    session = AgentSession(helper, pipeline, wake_up=WakeUp(after=20.0, repeat=1))
    session.on_wake_up = helper.offer_help  # here: `on_enter` does not run again in a call that goes on after a crash
    await session.start(room_options=SCREEN)


if __name__ == "__main__":
    raise SystemExit("this is an app, which a worker runs: vivavoce dev examples/screen_share.py")
