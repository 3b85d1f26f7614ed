"""Answers from the company's documents, in writing: `OPENAI_API_KEY=… python examples/knowledge.py handbook.pdf …`.

On the phone it is the same: give the pipeline an stt, a vad and a tts, and start the session in a job's room.
"""

import sys
from collections.abc import Sequence

import anyio

from vivavoce.agents import Agent, AgentSession, SessionOptions
from vivavoce.agents.events import KnowledgeUnanswered, RetrievalMissed
from vivavoce.agents.knowledge import KnowledgeBase, KnowledgeOptions
from vivavoce.agents.transports import TextTransport
from vivavoce.pipelines import CascadingPipeline
from vivavoce.plugins import openai

HOURS = "We open at nine on weekdays. On Saturdays we close at noon. On Sundays the shop is closed."
RETURNS = "A parcel may be returned within thirty days. The refund takes a week."
QUESTIONS = ("Are you open on Sundays?", "How long does a refund take?", "Do you repair violins?")


async def filled(files: Sequence[str]) -> KnowledgeBase:
    base = KnowledgeBase()  # KnowledgeBase("company.db", embedder=openai.Embedder()) also finds paraphrases
    await base.add_text(HOURS, source="opening hours")
    await base.add_text(RETURNS, source="returns")
    for file in files:
        await base.add_file(file)  # txt, md and docx; pdf with the extra `documents`
    return base


async def answer_to(question: str, chat: TextTransport) -> str:
    chat.send(question)
    pieces = []
    async for piece in chat:
        pieces.append(piece.text)
        if piece.is_final:
            break
    return "".join(pieces)


async def main(files: Sequence[str] = ()) -> None:
    async with await filled(files) as base:
        agent = Agent("You answer for a parcel shop, in one sentence. Say so if the documents do not have the answer.")
        pipeline = CascadingPipeline(llm=openai.LLM())
        options = SessionOptions(knowledge=KnowledgeOptions(base=base, k=2, min_score=0.4))
        session: AgentSession = AgentSession(agent, pipeline, options=options)
        session.on(KnowledgeUnanswered, lambda event: print("to be written:", event.question))
        session.on(RetrievalMissed, lambda event: print("no search:", event.error or "it was late"))
        async with session:
            chat = TextTransport()
            await session.start(chat)
            for question in QUESTIONS:
                print("caller:", question)
                print("agent:", await answer_to(question, chat))


if __name__ == "__main__":
    anyio.run(main, sys.argv[1:])
