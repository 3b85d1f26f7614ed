"""GetPostalAddress: a postal address."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from vivavoce.agents.tasks.options import TaskOptions
from vivavoce.agents.tasks.ready.confirmed import ConfirmedTask
from vivavoce.agents.tools.context import RunContext
from vivavoce.pipelines.core.checks import check_text
from vivavoce.pipelines.core.errors import ConfigurationError, ToolError
from vivavoce.pipelines.llm.tools import function_tool

INSTRUCTIONS = (
    "You collect one postal address from the caller: street, house number, postal code and city, and the region and "
    "the country where they matter. Ask for the parts that are missing. Call `give_address` when you have them."
)

POSTAL_CODES = {
    "AT": r"\d{4}",
    "AU": r"\d{4}",
    "BE": r"\d{4}",
    "CA": r"[A-Z]\d[A-Z] \d[A-Z]\d",
    "CH": r"\d{4}",
    "DE": r"\d{5}",
    "DK": r"\d{4}",
    "ES": r"\d{5}",
    "FR": r"\d{5}",
    "GB": r"[A-Z]{1,2}\d[A-Z\d]? \d[A-Z]{2}",
    "IT": r"\d{5}",
    "NL": r"\d{4} [A-Z]{2}",
    "PL": r"\d{2}-\d{3}",
    "SE": r"\d{3} \d{2}",
    "US": r"\d{5}(-\d{4})?",
}
"""Forms of postal codes by country; a code of another country is taken as it is."""
_SPACED = {"CA": 3, "GB": 3, "NL": 2, "SE": 2}
"""Characters behind the space of a code."""

Words = Annotated[str, Field(min_length=1, max_length=200)]


class PostalAddress(BaseModel):
    """A postal address. `country`: two letters (ISO 3166); `region`: such as the state. Empty where it matters not."""

    model_config = ConfigDict(str_strip_whitespace=True, frozen=True)

    street: Words
    house_number: str = Field(default="", max_length=20)
    postal_code: str = Field(default="", max_length=20)
    city: Words
    region: str = Field(default="", max_length=100)
    country: str = Field(default="", pattern=r"^([A-Za-z]{2})?$")

    @field_validator("country")
    @classmethod
    def _upper(cls, country: str) -> str:
        return country.upper()

    @model_validator(mode="before")
    @classmethod
    def _write_code(cls, given: object) -> object:
        if not isinstance(given, dict):
            return given
        country = str(given.get("country", "")).upper().strip()
        return given | {"postal_code": postal_code(str(given.get("postal_code", "")), country)}

    @model_validator(mode="after")
    def _check_code(self) -> PostalAddress:
        form = POSTAL_CODES.get(self.country)
        if form is not None and not re.fullmatch(form, self.postal_code):
            raise ValueError(f"{self.postal_code!r} is no postal code of {self.country}")
        return self

    def __str__(self) -> str:
        street = f"{self.street} {self.house_number}".strip()
        place = " ".join(part for part in (self.postal_code, self.city) if part)
        return ", ".join(part for part in (street, place, self.region, self.country) if part)


def postal_code(text: str, country: str) -> str:
    """Return a postal code as it is written in that country: upper case, with its space."""
    code = text.upper().strip()
    if country in _SPACED:
        code = code.replace(" ", "")
        code = f"{code[: -_SPACED[country]]} {code[-_SPACED[country] :]}"
    return code


class GetPostalAddress(ConfirmedTask[PostalAddress]):
    """Asks for a postal address; the result is a `PostalAddress`.

    Args:
        country: Two letters (ISO 3166) of the country where the caller names none; empty: the caller must name it.
        question, extra_instructions, confirms, options: As of a `ConfirmedTask`.
    Raises:
        ConfigurationError: The country is no two letters.
    """

    def __init__(
        self,
        country: str = "",
        *,
        question: str = "What is your address?",
        extra_instructions: str = "",
        confirms: bool = True,
        options: TaskOptions | None = None,
    ) -> None:
        self._country = check_text("country", country).upper()
        if not re.fullmatch(r"([A-Z]{2})?", self._country):
            raise ConfigurationError(f"need country as two letters of ISO 3166 or empty, got {country!r}; such as 'GB'")
        super().__init__(
            INSTRUCTIONS,
            question=question,
            extra_instructions=extra_instructions,
            confirms=confirms,
            options=options,
        )

    @function_tool
    async def give_address(
        self,
        context: RunContext,
        street: str,
        city: str,
        house_number: str = "",
        postal_code: str = "",
        region: str = "",
        country: str = "",
    ) -> str:
        """Take the caller's postal address, or its correction.

        Args:
            street: Its name, without the house number.
            region: The state or province, where it matters.
            country: Two letters (ISO 3166), if the caller names a country.
        """
        try:
            address = PostalAddress(
                street=street,
                house_number=house_number,
                postal_code=postal_code,
                city=city,
                region=region,
                country=country or self._country,
            )
        except ValidationError as error:
            problems = "; ".join(f"{'.'.join(map(str, p['loc'])) or 'address'}: {p['msg']}" for p in error.errors())
            raise ToolError(f"The address is not complete: {problems}. Ask the caller.") from None
        return self.heard(address, context, spoken=str(address))
