"""SessionKnowledge: what an application asks of the documents of a call."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vivavoce.agents.knowledge.base import KnowledgeBase
    from vivavoce.agents.knowledge.control import KnowledgeControl, RAGMessage


class SessionKnowledge:
    """The knowledge of a session (`session.knowledge`)."""

    def __init__(self, control: KnowledgeControl) -> None:
        self._control = control

    @property
    def base(self) -> KnowledgeBase | None:
        """The documents that it was given (`KnowledgeOptions.base`)."""
        return self._control.settings.base

    @property
    def session_base(self) -> KnowledgeBase:
        """Documents of this session alone, in memory, such as a file that the caller sends; gone with the session."""
        return self._control.session_base()

    async def run_rag(
        self,
        message: str,
        llm_prompt: str | None = None,
        llm_name: str | None = None,
        k: int | None = None,
        num_previous_messages: int | None = None,
    ) -> RAGMessage:
        """Have a model answer a question from the documents. The caller does not hear the answer: `say()` it.

        Args:
            message: The question.
            llm_prompt, k, num_previous_messages: In place of `prompt`, `k` and `previous_messages` of the options.
            llm_name: The name of one of `KnowledgeOptions.llms`; None: the pipeline's model, else the first of them.
        Raises:
            CapabilityError: There is no model.
            ConfigurationError: An argument is of another kind, or there are no documents.
            ProviderError: The embedder or the model failed, or both took longer than 30 s.
            SessionNotStartedError, SessionClosedError: The session does not run.
        """
        return await self._control.ask(
            self._control.given_base, message, llm_prompt, llm_name, k, num_previous_messages
        )

    async def run_session_rag(
        self, message: str, llm_prompt: str | None = None, llm_name: str | None = None, k: int | None = None
    ) -> RAGMessage:
        """Have a model answer a question from `session_base`; arguments and errors as of `run_rag`."""
        return await self._control.ask(self._control.session_base(), message, llm_prompt, llm_name, k, None)
