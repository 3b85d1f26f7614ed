"""KnowledgeControl: has a model answer questions from documents, as a RAGMessage; owns the documents of one session."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import anyio

from vivavoce.agents.extension.turn_in_hand import quoted
from vivavoce.agents.knowledge.embedder_use import CountedBase, EmbedderUse
from vivavoce.agents.knowledge.passages import Passage
from vivavoce.agents.speech.counted_answer import counted_answer, name_in_use
from vivavoce.agents.turn_records.turn_record import used_tokens
from vivavoce.pipelines.core.checks import check_text, check_whole, shown
from vivavoce.pipelines.core.errors import CapabilityError, ConfigurationError, ProviderTimeoutError
from vivavoce.pipelines.core.retry import RetryOptions, retry
from vivavoce.pipelines.core.words import same_words
from vivavoce.pipelines.llm.base import LLM, GenerateRequest, Usage
from vivavoce.pipelines.llm.chat_context import ChatContext, ChatMessage

if TYPE_CHECKING:
    from vivavoce.agents.extension.extension import Host
    from vivavoce.agents.knowledge.base import KnowledgeBase
    from vivavoce.agents.knowledge.settings import KnowledgeSettings

ANSWER_LIMIT = 30.0
"""Seconds for the search and the answer of a model to `run_rag()`, with its retries."""
NO_PASSAGE = "(No passage fits the question.)"


@dataclass(frozen=True, slots=True, kw_only=True)
class RAGMessage:
    """An answer from documents.

    Args:
        llm_name: The name in `KnowledgeOptions.llms`, or provider and model of the pipeline's model.
        docs: The passages that the model got, the best one first.
    """

    llm_name: str
    question: str = field(repr=False)
    answer: str = field(repr=False)
    docs: tuple[Passage, ...] = field(repr=False)


def as_text(passages: Sequence[Passage]) -> str:
    """Return passages for a model, with numbers and sources."""
    titles = (f"[{number}] {passage.source}".rstrip() for number, passage in enumerate(passages, 1))
    return "\n\n".join(f"{title}\n{passage.text}" for title, passage in zip(titles, passages, strict=True))


class KnowledgeControl:
    """The session's side of its knowledge."""

    def __init__(self, host: Host, settings: KnowledgeSettings) -> None:
        self._context = host.context
        self._history = host.history
        self.settings = settings
        self.use = EmbedderUse(host.context)
        self._session_base: KnowledgeBase | None = None

    @property
    def given_base(self) -> KnowledgeBase:
        """The documents of the options.

        Raises:
            ConfigurationError: There are none.
        """
        if self.settings.base is None:
            raise ConfigurationError(
                "run_rag() needs documents, got KnowledgeOptions(base=None); give it base=KnowledgeBase(…), or call "
                "run_session_rag()"
            )
        return self.settings.base

    def session_base(self) -> KnowledgeBase:
        """Return the documents of this session alone, made with the first call.

        Raises:
            SessionClosedError: The session is closed.
        """
        if self._session_base is None:
            self._context.check_not_closed()
            base = self.settings.base
            self._session_base = CountedBase(None if base is None else base.embedder, self.use)
        return self._session_base

    @property
    def has_session_base(self) -> bool:
        """Whether there are such documents."""
        return self._session_base is not None

    async def aclose(self) -> None:
        """Delete them."""
        if self._session_base is not None:
            await self._session_base.aclose()

    async def ask(
        self,
        base: KnowledgeBase,
        message: str,
        prompt: str | None,
        llm_name: str | None,
        k: int | None,
        previous: int | None,
    ) -> RAGMessage:
        """Return the answer of a model from that base; raises as `SessionKnowledge.run_rag`."""
        question = check_text("message", message)
        prompt = self.settings.prompt if prompt is None else check_text("llm_prompt", prompt)
        previous = self.settings.previous_messages if previous is None else previous
        check_whole("num_previous_messages", previous, at_least=0)
        name, llm = self._model(llm_name)
        self._context.check_open()
        self._context.check_here("run_rag()")
        with anyio.move_on_after(ANSWER_LIMIT):
            with self.use.counted():
                docs = tuple(await base.search(question, self.settings.k if k is None else k))
            material = quoted(as_text(docs)) if docs else NO_PASSAGE
            asked = ChatMessage(role="user", content=f"{question}\n\n{material}")
            context = ChatContext([*self._before(question, previous), asked])
            request = GenerateRequest(context=context, instructions=prompt)
            answer = await retry(partial(counted_answer, llm, request, self._count), RetryOptions())
            return RAGMessage(llm_name=name, question=question, answer=answer, docs=docs)
        raise ProviderTimeoutError(f"search and model gave no answer within {ANSWER_LIMIT:g} s", provider=llm.provider)

    def _model(self, wanted: str | None) -> tuple[str, LLM]:
        """Return the model to ask, and its name.

        Raises:
            CapabilityError: There is none.
            ConfigurationError: There is none of that name.
        """
        pipeline, given = self._context.session.pipeline, dict(self.settings.llms or {})
        if wanted is not None:
            if wanted not in given:
                names = ", ".join(map(repr, given)) or "none"
                raise ConfigurationError(
                    f"llm_name must be a name in KnowledgeOptions.llms ({names}), got {shown(wanted)}; None asks the "
                    "pipeline's model"
                )
            return wanted, given[wanted]
        for _, part in pipeline.parts():
            if isinstance(part, LLM):
                return name_in_use(part), part
        if not given:
            raise CapabilityError(pipeline.name, "an LLM for run_rag()", "give it one: KnowledgeOptions(llms={…})")
        return next(iter(given.items()))

    def _before(self, question: str, count: int) -> list[ChatMessage]:
        """Return the newest messages of the conversation, without the question itself."""
        said = [
            item
            for item in self._history.for_model()
            if isinstance(item, ChatMessage) and item.role in ("user", "assistant") and item.content.strip()
        ]
        if said and said[-1].role == "user" and same_words(said[-1].content, question):
            said.pop()
        return said[-count:] if count else []

    def _count(self, usage: Usage) -> None:
        self._context.add_usage(used_tokens(usage), "llm", usage.made_by)
