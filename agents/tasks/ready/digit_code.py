"""GetDigitCode: a code of digits, such as a customer number or a PIN, by speech or by the keys of a telephone."""

from __future__ import annotations

from vivavoce.agents.agent import AgentControl, CompletedTurn, StopResponse
from vivavoce.agents.events import KeyPressed
from vivavoce.agents.states import AgentState
from vivavoce.agents.tasks.options import TaskOptions
from vivavoce.agents.tasks.ready.confirmed import ConfirmedTask
from vivavoce.agents.tasks.ready.spelling import spoken_digits
from vivavoce.agents.tools.context import RunContext
from vivavoce.pipelines.core.checks import check_number, check_whole
from vivavoce.pipelines.core.clock import LoopClock, TimerHandle
from vivavoce.pipelines.core.errors import ConfigurationError, ToolError
from vivavoce.pipelines.llm.tools import function_tool

INSTRUCTIONS = (
    "You collect a code of {digits} digits from the caller. Call `give_code` with the digits in the caller's words or "
    "written."
)


class GetDigitCode(ConfirmedTask[str]):
    """Asks for a code; the result is a str of digits.

    Keys of a telephone cut the agent. With the last digit that fits, or with `#`, the code is complete and needs no
    confirmation; `*` begins anew. Where no key follows, the digits are the code if there are enough, else it is asked
    for again.

    Args:
        length: Its number of digits.
        max_length: Its greatest number of digits; the same as `length` by default.
        key_pause: Seconds after a key in which the next one must come. They count while neither side speaks.
        question, extra_instructions, confirms, options: As of a `ConfirmedTask`. Without a confirmation (the default),
            a turn of the caller that holds only the digits is understood without the model.
    """

    takes_keys = True

    def __init__(
        self,
        length: int,
        *,
        max_length: int | None = None,
        key_pause: float = 5.0,
        question: str = "Please tell me your code, digit by digit.",
        extra_instructions: str = "",
        confirms: bool = False,
        options: TaskOptions | None = None,
    ) -> None:
        check_whole("length", length, at_least=1)
        check_whole("max_length", max_length, at_least=1, or_none=True)
        self._least, self._most = length, length if max_length is None else max_length
        if self._most < self._least:
            raise ConfigurationError(f"need max_length >= length, got {max_length!r} and {length!r}")
        check_number("key_pause", key_pause, above=0, unit="s")
        self._key_pause = key_pause
        self._pause: TimerHandle | None = None
        self._keys = ""
        self._wanted = str(length) if self._most == length else f"{length} to {self._most}"
        super().__init__(
            INSTRUCTIONS.format(digits=self._wanted),
            question=question,
            extra_instructions=extra_instructions,
            confirms=confirms,
            options=options,
        )

    async def on_enter(self) -> None:
        """Take keys from now on, and ask the question."""
        self.session.on(KeyPressed, self._press)
        await super().on_enter()

    async def on_exit(self) -> None:
        """Take keys no more."""
        self.session.off(KeyPressed, self._press)
        self._stop_pause()

    def _press(self, event: KeyPressed) -> None:
        if event.key == "#" and not self._keys:
            return  # the end of a code that was whole before
        self.session.interrupt()  # type: ignore[unused-awaitable]  # it acts when called
        self._stop_pause()
        if event.key == "*":
            self._keys = ""
        elif event.key != "#":
            self._keys += event.key
        if event.key == "#":
            self._end_keys()
        elif self._keys.isdecimal() and len(self._keys) == self._most:
            self.complete(self._keys)
        else:
            self._begin_pause()

    def _begin_pause(self) -> None:
        clock = LoopClock()
        self._pause = clock.call_at(clock.now() + self._key_pause, self._no_key_followed)

    def _stop_pause(self) -> None:
        if self._pause is not None:
            self._pause.cancel()
            self._pause = None

    def _no_key_followed(self) -> None:
        """End the code, unless somebody speaks, or an answer is on its way: then the pause begins again."""
        self._pause = None
        if self.outcome is not None or not AgentControl.of(self).is_in_session:
            return
        state = self.session.agent_state
        if state is AgentState.IDLE and self.session.agent is self:
            self._end_keys()
        elif state not in (AgentState.CLOSING, AgentState.CLOSED):
            self._begin_pause()

    def _end_keys(self) -> None:
        """Take the keys as the code, or ask for it again."""
        keys, self._keys = self._keys, ""
        if keys.isdecimal() and self._fits(keys):
            self.complete(keys)
        elif keys or self._question.strip():
            problem = f"That was no code of {self._wanted} digits. " if keys else ""
            self._ask(f"{problem}{self._question}")  # type: ignore[unused-awaitable]  # it is heard in its turn

    async def on_user_turn_completed(self, turn: CompletedTurn) -> None:
        """Take a code without the model, if the turn holds nothing else."""
        digits = spoken_digits(turn.text)
        if not self._confirms and digits is not None and self._fits(digits):
            self.complete(digits)
            raise StopResponse(is_taken=True)

    @function_tool
    async def give_code(self, digits: str, context: RunContext) -> str:
        """Take the caller's code, or its correction.

        Args:
            digits: All of its digits, in the caller's words or written.
        """
        code = spoken_digits(digits)
        if code is None or not self._fits(code):
            count = 0 if code is None else len(code)
            raise ToolError(f"The code needs {self._wanted} digits, and these are {count}. Ask the caller again.")
        return self.heard(code, context, spoken=", ".join(code))

    def _fits(self, code: str) -> bool:
        return self._least <= len(code) <= self._most
