"""GetEmailAddress: an e-mail address, by spelling too. Needs the extra `tasks` (email-validator)."""

from __future__ import annotations

from vivavoce.agents.tasks.options import TaskOptions
from vivavoce.agents.tasks.ready.confirmed import ConfirmedTask
from vivavoce.agents.tasks.ready.extra import needed
from vivavoce.agents.tasks.ready.spelling import read_back, spelled
from vivavoce.agents.tools.context import RunContext
from vivavoce.pipelines.core.errors import ToolError
from vivavoce.pipelines.llm.tools import function_tool

INSTRUCTIONS = (
    "You collect one e-mail address from the caller. The caller may spell it ('b as in bravo', 'double u', 'at', "
    "'dot'). Call `give_email` with the address in the caller's words, or as you would write it; the tool writes "
    "it down."
)


def email_address(text: str) -> str:
    """Return the address that a spoken or written text means, in the form of the mail standards, in lower case.

    Raises:
        ToolError: It is none; the text has the reason, for the model.
        ConfigurationError: The extra `tasks` is not installed.
    """
    validator = needed("email_validator")
    try:
        found = validator.validate_email(spelled(text), check_deliverability=False)
    except validator.EmailNotValidError as error:
        raise ToolError(f"{spelled(text)!r} is no e-mail address: {error} Ask the caller to spell it.") from None
    return str(found.normalized).lower()


class GetEmailAddress(ConfirmedTask[str]):
    """Asks for an e-mail address; the result is a str such as `"ann@example.com"`.

    Args:
        question, extra_instructions, confirms, options: As of a `ConfirmedTask`.
    Raises:
        ConfigurationError: The extra `tasks` is not installed.
    """

    def __init__(
        self,
        *,
        question: str = "What is your e-mail address?",
        extra_instructions: str = "",
        confirms: bool = True,
        options: TaskOptions | None = None,
    ) -> None:
        needed("email_validator")
        super().__init__(
            INSTRUCTIONS,
            question=question,
            extra_instructions=extra_instructions,
            confirms=confirms,
            options=options,
        )

    @function_tool
    async def give_email(self, address: str, context: RunContext) -> str:
        """Take the caller's e-mail address, or its correction.

        Args:
            address: The whole address, in the caller's words or written.
        """
        written = email_address(address)
        return self.heard(written, context, spoken=f"{written} ({read_back(written)})")
