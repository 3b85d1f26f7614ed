"""A call to an agent with real ears and a real voice, in a room: the session, the caller, and both records."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager

from livekit import rtc

from kit.e2e.faults import FaultySTT, FaultyTTS
from kit.e2e.room_endpoint import RoomEndpoint
from kit.e2e.talker import RATE, Talker, calling, record, spoken
from vivavoce.agents import Agent, AgentSession, EndpointingOptions, SessionOptions, SpeechLimits, WakeUp
from vivavoce.agents.records import TurnRecord
from vivavoce.agents.testing import Recording, ScriptedLLM
from vivavoce.pipelines import CascadingPipeline
from vivavoce.plugins import espeak, pocketsphinx, silero

GRAMMAR = """#JSGF V1.0; grammar caller;
public <turn> = table for friday please | at seven | wait stop please | yeah | yes please | goodbye;"""
MURMUR = "hmm uh, hmm"
"""A voice without words, 1.1 s: speech to the VAD, a filler to the recogniser."""
LINES = ("table for friday please", "at seven", "wait stop please", "yeah", "yes please", MURMUR)

OPTIONS = SessionOptions(
    capture_content=True,
    preemptive=False,  # the n-th scripted answer belongs to the n-th turn
    away_after=None,
    endpointing=EndpointingOptions(min_delay=0.4),
    speech=SpeechLimits(tts_stall=1.0),
    close_timeout=3.0,
)


class Call:
    """One call: `talker` is the caller, `session` the agent's side, `recording` its events."""

    def __init__(
        self,
        session: AgentSession[object],
        talker: Talker,
        recording: Recording,
        *,
        llm: ScriptedLLM,
        stt: FaultySTT,
        tts: FaultyTTS,
    ) -> None:
        self.session = session
        self.talker = talker
        self.recording = recording
        self.llm = llm
        self.stt = stt
        self.tts = tts

    async def turns(self, count: int, *, kind: str = "turn") -> list[TurnRecord]:
        """Wait until so many turns of a kind have ended and the caller has heard the last of it; return them."""
        try:
            await self.talker.until(lambda: len(self._ended(kind)) >= count)
        except TimeoutError as error:
            raise AssertionError(f"{len(self._ended(kind))} of {count} turns\n{self._seen()}") from error
        await self.talker.listens(0.4)
        return self._ended(kind)

    def _seen(self) -> str:
        """What the session saw, for a failure: a recogniser's mishearing is told from a lost turn."""
        events = zip(self.recording.times, self.recording.events, strict=True)
        lines = [f"{at:.2f} {getattr(event, 'text', '')!r} {event}" for at, event in events]
        return "\n".join([*lines, *map(repr, self.session.report().dropped_turns)])

    def _ended(self, kind: str) -> list[TurnRecord]:
        return [turn for turn in self.session.turns if turn.kind == kind]

    def states(self, who: str) -> list[str]:
        """The states that agent or user went through since the start."""
        return [state for name, state, _ in self.recording.states() if name == who]

    @property
    def messages(self) -> list[tuple[str, str]]:
        return [(message.role, message.content) for message in self.session.history.messages()]


@asynccontextmanager
async def caller_and_agent(
    server: RoomEndpoint,
    room_name: str,
    room: rtc.Room,
    *,
    grammar: str = GRAMMAR,
    texts: Iterable[str] = LINES,
    rate: int = 160,
) -> AsyncIterator[Callable[..., Awaitable[Call]]]:
    """Yield a function that starts the call; it gets the model's script, and the agent.

    Args:
        texts: The lines of the caller; the recogniser knows those of the grammar.
        rate: Words a minute of the agent's voice.
    """
    async with AsyncExitStack() as stack:
        vad = await stack.enter_async_context(silero.VAD())
        stt = await stack.enter_async_context(pocketsphinx.STT(grammar=grammar, fillers=pocketsphinx.FILLERS))
        tts = await stack.enter_async_context(espeak.TTS(rate=rate))
        await tts.start()
        lines = await record(texts)

        async def call(
            *script: object,
            agent: Agent | None = None,
            options: SessionOptions = OPTIONS,
            wake_up: WakeUp | None = None,
        ) -> Call:
            ears, voice = FaultySTT(stt), FaultyTTS(tts)
            llm = ScriptedLLM(*script)  # type: ignore[arg-type]  # steps
            pipeline = CascadingPipeline(vad=vad, stt=ears, llm=llm, tts=voice)
            session = AgentSession[object](agent or Agent("Be brief."), pipeline, wake_up=wake_up, options=options)
            stack.push_async_callback(session.close)
            recording = Recording()
            recording.listen(session)
            await session.start(room)
            talker = await stack.enter_async_context(calling(server, room_name, lines))
            return Call(session, talker, recording, llm=llm, stt=ears, tts=voice)

        yield call


async def seconds_of(text: str) -> float:
    """How long the agent's voice takes to say a text."""
    async with espeak.TTS(rate=160) as tts:
        return len(await spoken(tts, text)) / 2 / RATE
