"""Takes a booking by a conversation graph, without a model: `vivavoce dev examples/booking_graph.py`.

Offline and without keys: pocketsphinx listens, espeak speaks. The graph decides what comes next; it is checked before.
"""

from collections.abc import AsyncIterator
from typing import Any

from vivavoce.agents import Agent, AgentSession, JobContext, SessionOptions
from vivavoce.agents.graphs import GraphOptions, PatternIntents, StateGraph
from vivavoce.pipelines import CascadingPipeline
from vivavoce.plugins import espeak, pocketsphinx, silero

CALLER = """#JSGF V1.0; grammar caller;
public <turn> = a table please | for (two | four) people | when are you open | yes | no | goodbye;"""

graph = StateGraph(PatternIntents())
table = graph.new_intent("table", ["a table please"])
people = graph.new_intent("people", ["for two people", "for four people"])
hours = graph.new_intent("hours", ["when are you open"])
yes, no = graph.new_intent("yes", ["yes"]), graph.new_intent("no", ["no"])

greeting = graph.new_state("greeting", initial=True)
size = graph.new_state("size")
check = graph.new_state("check")
booked = graph.new_state("booked")
opening = graph.new_state("opening")


@greeting.body
async def greet(session: AgentSession[Any]) -> AsyncIterator[str]:
    yield "Hello, this is the corner table. What can I do for you?"


@size.body
async def ask_size(session: AgentSession[Any]) -> AsyncIterator[str]:
    yield "For how many people?"


@check.body
async def repeat(session: AgentSession[Any]) -> AsyncIterator[str]:
    event, intent = session.graph.event, session.graph.intent
    if event is not None and intent is not None and intent.name == people.name:  # else back from the opening hours
        session.memory.private.set("size", event.data)
    yield f"A table {session.memory.private.get('size')}. Is that right?"


@booked.body
async def book(session: AgentSession[Any]) -> AsyncIterator[str]:
    yield "It is booked. Thank you for calling."


@opening.body
async def tell_hours(session: AgentSession[Any]) -> AsyncIterator[str]:
    yield "We are open from five to eleven. "


async def pardon(session: AgentSession[Any]) -> AsyncIterator[str]:
    yield "Pardon?"


for state in (greeting, size, check, booked):
    state.set_fallback_body(pardon)
greeting.when_intent_matched(table).go_to(size)
size.when_intent_matched(people).go_to(check)
size.after(30).go_to(greeting)
check.when_intent_matched(yes).go_to(booked)
check.when_intent_matched(no).go_to(size)
opening.set_global(hours)  # from every state, and back


async def entrypoint(ctx: JobContext) -> None:
    tts = espeak.TTS()
    ctx.add_shutdown_callback(tts.aclose)
    pipeline = CascadingPipeline(vad=silero.VAD(), stt=pocketsphinx.STT(grammar=CALLER), tts=tts)
    options = SessionOptions(graph=GraphOptions(graph))
    await AgentSession(Agent("You take table bookings."), pipeline, options=options).start()


if __name__ == "__main__":
    raise SystemExit("this is an app, which a worker runs: vivavoce dev examples/booking_graph.py")
