"""GetPhoneNumber: a phone number of any country. Needs the extra `tasks` (phonenumbers)."""

from __future__ import annotations

from vivavoce.agents.tasks.options import TaskOptions
from vivavoce.agents.tasks.ready.confirmed import ConfirmedTask
from vivavoce.agents.tasks.ready.extra import needed
from vivavoce.agents.tasks.ready.spelling import spoken_digits
from vivavoce.agents.tools.context import RunContext
from vivavoce.pipelines.core.checks import check_text
from vivavoce.pipelines.core.errors import ConfigurationError, ToolError
from vivavoce.pipelines.llm.tools import function_tool

INSTRUCTIONS = (
    "You collect one phone number from the caller. Call `give_phone` with the digits in the caller's words or written, "
    "with a plus and the country code if the caller names a country; the tool checks the number and writes it down."
)


def phone_number(text: str, country: str) -> str:
    """Return the number that a spoken or written text means, in E.164, such as "+442079460018".

    Args:
        country: Two letters (ISO 3166) of the country for numbers without a country code.
    Raises:
        ToolError: It is none; the text has the reason, for the model.
        ConfigurationError: The extra `tasks` is not installed.
    """
    phonenumbers = needed("phonenumbers")
    plus, rest = "", text.strip().casefold()
    for sign in ("+", "plus "):
        if rest.startswith(sign):
            plus, rest = "+", rest.removeprefix(sign)
            break
    digits = spoken_digits(rest)
    try:
        number = phonenumbers.parse(f"{plus}{digits}" if digits else text, country)
    except phonenumbers.NumberParseException as error:
        raise ToolError(f"{text!r} is no phone number: {error}. Ask the caller for its digits.") from None
    if not phonenumbers.is_valid_number(number):
        raise ToolError(f"{text!r} is no number in use in its country ({country}). Ask the caller for it again.")
    return str(phonenumbers.format_number(number, phonenumbers.PhoneNumberFormat.E164))


def spoken_number(number: str, country: str) -> str:
    """Return a number in E.164 as it is read back: its groups, digit by digit, a national one of `country` as such."""
    phonenumbers = needed("phonenumbers")
    parsed = phonenumbers.parse(number, None)
    kind = phonenumbers.PhoneNumberFormat
    is_national = phonenumbers.region_code_for_number(parsed) == country
    text = phonenumbers.format_number(parsed, kind.NATIONAL if is_national else kind.INTERNATIONAL)
    groups = "".join(character if character.isalnum() or character == "+" else " " for character in text).split()
    return ", ".join(" ".join(group).replace("+", "plus") for group in groups)


class GetPhoneNumber(ConfirmedTask[str]):
    """Asks for a phone number; the result is a str in E.164, such as `"+442079460018"`.

    Args:
        country: Two letters (ISO 3166) of the country for numbers without a country code.
        question, extra_instructions, confirms, options: As of a `ConfirmedTask`.
    Raises:
        ConfigurationError: The extra `tasks` is not installed, or there is no such country.
    """

    def __init__(
        self,
        country: str,
        *,
        question: str = "What is your phone number?",
        extra_instructions: str = "",
        confirms: bool = True,
        options: TaskOptions | None = None,
    ) -> None:
        self._country = check_text("country", country).upper()
        if self._country not in needed("phonenumbers").SUPPORTED_REGIONS:
            raise ConfigurationError(f"need country as two letters of ISO 3166, got {country!r}; for example 'GB'")
        super().__init__(
            INSTRUCTIONS,
            question=question,
            extra_instructions=extra_instructions,
            confirms=confirms,
            options=options,
        )

    @function_tool
    async def give_phone(self, number: str, context: RunContext) -> str:
        """Take the caller's phone number, or its correction.

        Args:
            number: All of its digits, in the caller's words or written.
        """
        written = phone_number(number, self._country)
        return self.heard(written, context, spoken=spoken_number(written, self._country))
