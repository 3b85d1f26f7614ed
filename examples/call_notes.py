"""An extension of the application: a note of each call when it ends; offline: `vivavoce dev examples/call_notes.py`."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import ClassVar

from vivavoce.agents import Agent, AgentSession, Extension, JobContext, SessionOptions
from vivavoce.agents.extension import Attached, Host
from vivavoce.agents.records import TurnRecord
from vivavoce.pipelines import CascadingPipeline
from vivavoce.plugins import espeak, pocketsphinx, rules, silero

CALLER = "#JSGF V1.0; grammar caller; public <turn> = [on] (friday | saturday | sunday) | goodbye;"
DAY = rules.Slot(name="day", parser=rules.days(), ask="For which day?")
TALK = rules.SlotFilling(slots=(DAY,), done="We will see you on {day}.")


@dataclass(frozen=True)
class CallNotes(Extension):  # the moments at which a session calls it: docs/extensions.md
    key: ClassVar[str] = "call notes"
    keep: Callable[[str], Awaitable[None]]

    def attach(self, host: Host) -> Attached:  # once for each session
        return Notes(self.keep, host)


class Notes(Attached):
    def __init__(self, keep: Callable[[str], Awaitable[None]], host: Host) -> None:
        self._keep, self._id = keep, host.context.id
        self.lines: list[str] = []
        self.face = self  # for the application: session.extension(CallNotes).lines

    def turn_over(self, record: TurnRecord) -> None:  # it must not wait
        if record.kind == "turn":
            wait = "no answer" if record.e2e_latency is None else f"answered after {record.e2e_latency:.1f} s"
            self.lines.append(f"{record.user_text!r}, {wait}: {record.heard_text!r}")

    async def aclose(self) -> None:  # a step of the close: it may wait
        await self._keep("\n".join([f"call {self._id}, {len(self.lines)} turns", *self.lines]))


class Reception(Agent):
    async def on_enter(self) -> None:
        await self.session.say("Hello! For which day?")


async def keep(note: str) -> None:
    print(note, flush=True)  # or send it to where your company keeps its calls


async def entrypoint(ctx: JobContext) -> None:
    tts = espeak.TTS()
    ctx.add_shutdown_callback(tts.aclose)
    pipeline = CascadingPipeline(vad=silero.VAD(), stt=pocketsphinx.STT(grammar=CALLER), llm=rules.LLM(TALK), tts=tts)
    options = SessionOptions(extensions=(CallNotes(keep),), capture_content=True)  # without it records hold no words
    await AgentSession(Reception("You take table bookings."), pipeline, options=options).start()


if __name__ == "__main__":
    raise SystemExit("this is an app, which a worker runs: vivavoce dev examples/call_notes.py")
