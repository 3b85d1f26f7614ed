"""ConfirmedTask: a task that asks a question, writes the answer down, reads it back and has it confirmed."""

from __future__ import annotations

from typing import Any, TypeVar

from vivavoce.agents.core.speech_handle import SpeechHandle
from vivavoce.agents.tasks.options import TaskOptions
from vivavoce.agents.tasks.task import AgentTask
from vivavoce.agents.tools.context import RunContext
from vivavoce.pipelines.core.checks import check_flag, check_text
from vivavoce.pipelines.core.errors import ToolError
from vivavoce.pipelines.llm.tools import function_tool

T = TypeVar("T")

_CONFIRMING = (
    "Read the written form back exactly as the tool's answer says, and ask whether it is right. Call `confirm` only "
    "when the caller has said so. If the caller corrects a part of it, such as 'no, with a d', call the tool again "
    "with the whole corrected answer."
)
_DECLINING = (
    "If the caller does not want to give it, or wants something else, call `decline` with the reason. Collect nothing "
    "else and answer no other questions. Be brief."
)


class ConfirmedTask(AgentTask[T]):
    """Collects one answer. A subclass has a tool that takes the caller's words and calls `heard()`.

    Args:
        instructions: The answer that is needed, and the tool to call with it.
        question: The first words to the caller. A pipeline that cannot `say` has its model ask.
        extra_instructions: Added to the instructions, for example the language, or the reason for the question.
        confirms: Whether the answer is read back and confirmed.
        id, options: As of an `AgentTask`.
    """

    def __init__(
        self,
        instructions: str,
        *,
        question: str,
        extra_instructions: str = "",
        confirms: bool = True,
        id: str | None = None,
        options: TaskOptions | None = None,
        result_type: Any = None,
    ) -> None:
        check_flag("confirms", confirms)
        self._question = check_text("question", question)
        self._confirms = confirms
        extra = check_text("extra_instructions", extra_instructions)
        parts = (instructions, _CONFIRMING if confirms else "", _DECLINING, extra)
        text = "\n".join(part for part in parts if part)
        super().__init__(text, id=id, options=options, result_type=result_type)
        if not confirms:
            self.update_tools([tool for tool in self.tools if tool.name != "confirm"])
        self._heard: tuple[T, str] | None = None

    async def on_enter(self) -> None:
        """Ask the question."""
        if self._question.strip():
            await self._ask(self._question)

    def _ask(self, text: str) -> SpeechHandle:
        """Say `text`; a pipeline that cannot `say` has its model ask."""
        if self.session.pipeline.capabilities.can_say:
            return self.session.say(text)
        return self.session.reply(f"Ask the caller: {text}")

    def heard(self, answer: T, context: RunContext, *, spoken: str) -> str:
        """Keep a checked answer; return the text for the model. Without a confirmation the task is complete.

        Args:
            spoken: The answer as it is read back.
        """
        if not self._confirms:
            self.complete(answer)
            return f"Taken: {spoken}"
        self._heard = (answer, context.speech.id)
        return f"Written down. Read this back and ask whether it is right: {spoken}"

    @function_tool
    async def confirm(self, context: RunContext) -> str:
        """Note that the caller has confirmed the answer that was read back."""
        if self._heard is None:
            raise ToolError("There is no answer to confirm yet.")
        answer, speech_id = self._heard
        if speech_id == context.speech.id:
            raise ToolError("The caller has not heard the answer yet. Read it back, and wait for the caller's words.")
        self.complete(answer)
        return "Confirmed."

    @function_tool(name="decline")
    async def note_decline(self, reason: str) -> str:
        """Note that the caller does not want to give the answer, or wants something else.

        Args:
            reason: The caller's reason, in a few words.
        """
        self.decline(reason)
        return "Noted."
