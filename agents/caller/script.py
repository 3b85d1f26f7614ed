"""The script of a call: its format, and error messages for its mistakes."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from vivavoce.pipelines.core.errors import ConfigurationError

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

DEFAULT_PAUSE = 0.8
MAX_STEPS = 200
MAX_BYTES = 1 << 19

Seconds = Annotated[float, Field(gt=0, le=600)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Expectation(_Part):
    """Requirements for the agent after a line of the caller; omitted ones are not checked."""

    words: tuple[str, ...] = ()
    """Each must be heard: words in this order, in any case and with any punctuation; or, in "eight|8", one of these."""
    not_words: tuple[str, ...] = ()
    """None of these may be heard."""
    within: Seconds | None = None
    """Seconds from the caller's last sound to the agent's first one."""
    silent_within: Seconds | None = None
    """Seconds from the onset of a line that interrupts until the agent is silent."""
    silent_for: Seconds | None = None
    """Seconds of the agent's silence after the line; the next step follows then."""
    may_leave: bool = False
    """Whether the agent may hang up: the call is over then, and the remaining lines do not count as missed."""
    leaves_within: Seconds | None = None
    """Seconds from the caller's last sound until the agent must have hung up; only in the last step."""

    @field_validator("words", "not_words", mode="before")
    @classmethod
    def _one_is_a_list(cls, value: Any) -> Any:
        return [value] if isinstance(value, str) else value

    @field_validator("words", "not_words")
    @classmethod
    def _has_words(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for one in value:
            if not all(re.search(r"\w", part) for part in one.split("|")):
                raise ValueError(f'needs words, and words on both sides of each "|", got {one!r}')
        return value

    @property
    def needs_words(self) -> bool:
        """Whether the caller needs to recognise the agent's words."""
        return bool(self.words or self.not_words)


class Step(_Part):
    """One line of the caller."""

    say: Annotated[str | None, Field(min_length=1, max_length=2000)] = None
    """Spoken by the caller's voice."""
    play: Annotated[str | None, Field(min_length=1)] = None
    """Or a WAV file of 16-bit PCM, beside the script."""
    press: Annotated[str | None, Field(pattern=r"^[0-9*#A-D]{1,32}$")] = None
    """Or keys of a telephone, five a second."""
    pause: Annotated[float, Field(ge=0, le=60)] = DEFAULT_PAUSE
    """Seconds of silence after which the agent's turn is over and the line begins."""
    barge_in_after: Annotated[float, Field(ge=0, le=600)] | None = None
    """Instead of `pause`: seconds into the agent's speech at which the line interrupts it."""
    expect: Expectation = Expectation()

    @model_validator(mode="after")
    def _is_one_line(self) -> Step:
        if sum(each is not None for each in (self.say, self.play, self.press)) != 1:
            raise ValueError("a step needs one of say (a text), play (a WAV file) and press (keys of a telephone)")
        if self.expect.silent_within is not None and self.barge_in_after is None:
            raise ValueError("silent_within is for a step that interrupts: give it barge_in_after")
        if self.expect.silent_for is not None and (self.expect.within is not None or self.expect.words):
            raise ValueError("silent_for expects no answer: leave within and words out")
        if self.expect.silent_for is not None and (self.expect.may_leave or self.expect.leaves_within is not None):
            raise ValueError("silent_for expects an agent that stays: leave may_leave and leaves_within out")
        return self

    @property
    def line(self) -> str:
        """The line's name in reports: its text, its file, or its keys."""
        if self.say is not None:
            return self.say
        return f"<{self.play}>" if self.play is not None else f"<keys {self.press}>"


class Voice(_Part):
    """The caller's voice."""

    tts: Annotated[str | None, Field(pattern=r"^[a-z][a-z0-9_]*$")] = None
    """A plugin with a TTS: `espeak`, `openai` … None: `hibari`, or `espeak` where that is not installed."""
    options: dict[str, Any] | None = None
    """Keyword arguments of its TTS; without `tts`, those of `espeak`."""


class Ears(_Part):
    """How the caller recognises the agent's words."""

    words: Literal["grammar", "general", "transcription", "none"] = "none"
    """By a JSGF grammar (`pocketsphinx`); any English, by `moonshine`, or poorly by `pocketsphinx` where that is not
    installed; or from the agent's transcription stream."""
    grammar: str | None = None
    """The grammar's file, beside the script."""

    @model_validator(mode="after")
    def _has_grammar(self) -> Ears:
        if (self.words == "grammar") != (self.grammar is not None):
            raise ValueError('words = "grammar" and grammar = "file.gram" go together')
        return self


class CallScript(_Part):
    """A whole call, from the agent's greeting to hanging up."""

    greeting: bool = True
    """Whether the agent speaks first."""
    greeting_expect: Expectation = Expectation()
    """Expectation of the greeting; `within` counts from when the agent's voice is connected."""
    steps: tuple[Step, ...] = Field(min_length=1, max_length=MAX_STEPS)
    patience: Seconds = 10.0
    """Seconds to wait for an answer before the call has failed."""
    takeover: Annotated[float, Field(ge=0, le=600)] = 3.0
    """Seconds in which another agent may take over from one that left, for example at a save under `vivavoce dev`."""
    limit: Annotated[float, Field(gt=0, le=3600)] = 300.0
    """Seconds of the whole call."""
    voice: Voice = Voice()
    ears: Ears = Ears()

    @model_validator(mode="after")
    def _has_ears_for_words(self) -> CallScript:
        wants = self.greeting_expect.needs_words or any(step.expect.needs_words for step in self.steps)
        if wants and self.ears.words == "none":
            raise ValueError(
                'the script expects words: set in [ears] how the caller hears them, for example words = "transcription"'
            )
        of_lines = ("silent_within", "silent_for", "leaves_within")
        if any(getattr(self.greeting_expect, name) is not None for name in of_lines):
            raise ValueError("greeting_expect takes words, not_words, within and may_leave")
        if any(step.expect.leaves_within is not None for step in self.steps[:-1]):
            raise ValueError("leaves_within is for the last step: nothing can be said to an agent that has hung up")
        if not self.greeting and self.greeting_expect != Expectation():
            raise ValueError("greeting_expect is for an agent that speaks first, and greeting = false says it does not")
        return self


_PARTS: dict[str, type[_Part]] = {
    "steps": Step,
    "expect": Expectation,
    "greeting_expect": Expectation,
    "voice": Voice,
    "ears": Ears,
}
"""The model of a key's value."""


def read_script(path: Path) -> CallScript:
    """Read a script, TOML or JSON by its name; paths in it are relative to its own folder.

    Raises:
        ConfigurationError: It cannot be read, or is no script; the text names the place and the need.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ConfigurationError(f"cannot read the script {str(path)!r}: {error.strerror or error}") from error
    if len(data) > MAX_BYTES:
        raise ConfigurationError(f"the script {str(path)!r} has {len(data)} bytes, at most {MAX_BYTES} are read")
    try:
        text = data.decode()
        if path.suffix == ".json":
            parsed = json.loads(text)
        elif path.suffix == ".toml":
            parsed = tomllib.loads(text)
        else:
            raise ConfigurationError(f"a script's name ends in .toml or .json, got {str(path)!r}")
    except (UnicodeDecodeError, json.JSONDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise ConfigurationError(f"the script {str(path)!r} cannot be parsed: {error}") from error
    try:
        script = CallScript.model_validate(parsed)
    except ValidationError as error:
        raise ConfigurationError(_explain(path, error)) from error
    return _with_paths(script, path.parent)


def _explain(path: Path, error: ValidationError) -> str:
    mistakes = error.errors(include_url=False, include_context=False)
    # A step with a mistake is left out, which may make too few steps: that is no mistake of its own.
    inner = {mistake["loc"][0] for mistake in mistakes if len(mistake["loc"]) > 1}
    mistakes = [each for each in mistakes if not (each["type"] == "too_short" and each["loc"][0] in inner)]
    lines = [f"the script {str(path)!r} has {len(mistakes)} mistake{'s' if len(mistakes) > 1 else ''}:"]
    for each in mistakes:
        place = ".".join(str(part + 1 if isinstance(part, int) else part) for part in each["loc"]) or "as a whole"
        lines.append(f"  {place}: {_in_words(each)}")
    return "\n".join(lines)


def _in_words(mistake: ErrorDetails) -> str:
    """Return the mistake as text, with the given value or the allowed ones."""
    if mistake["type"] == "extra_forbidden":
        parts = [part for part in mistake["loc"][:-1] if isinstance(part, str)]
        allowed = _PARTS[parts[-1]] if parts else CallScript
        return f"unknown key; known ones are {', '.join(allowed.model_fields)}"
    text = mistake["msg"].removeprefix("Value error, ")
    given = mistake["input"]
    return f"{text}, got {given!r}" if isinstance(given, str | int | float) else text


def _with_paths(script: CallScript, folder: Path) -> CallScript:
    """Return the script with the full paths of its files, after checking that each exists."""

    def find(name: str, what: str) -> str:
        found = (folder / name).resolve()
        if not found.is_file():
            raise ConfigurationError(f"the script's {what} {name!r} is not there: looked for {str(found)!r}")
        return str(found)

    steps = tuple(
        step if step.play is None else step.model_copy(update={"play": find(step.play, "recording")})
        for step in script.steps
    )
    ears = script.ears
    if ears.grammar is not None:
        ears = ears.model_copy(update={"grammar": find(ears.grammar, "grammar")})
    return script.model_copy(update={"steps": steps, "ears": ears})
