"""LLM: the language model's port on rules. It is no language model."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator, Iterator

from vivavoce.pipelines.core.errors import ProviderError
from vivavoce.pipelines.core.ids import new_id
from vivavoce.pipelines.llm.base import LLM as LLMPort
from vivavoce.pipelines.llm.base import Done, GenerateRequest, LLMEvent, TextDelta, Usage
from vivavoce.pipelines.llm.tools import ToolCall
from vivavoce.plugins.rules.slot_filling import SlotFilling
from vivavoce.plugins.rules.state import State, Understood, hear, matches, replay

PROVIDER = "rules"


class LLM(LLMPort):
    """Answers from a `SlotFilling`: patterns, slots and tool calls. It is no language model.

    It reads no instructions and knows only its slots; with it an agent runs, and is tested, without keys, network or
    weights. It keeps nothing between requests: each answer follows from the request's history alone (the user's words,
    the calls and their outputs), so interruptions, corrections and preemptive requests need no special code.
    Instructions for one generation are matched like user words. It streams sentence by sentence, uses no tokens, and
    takes no time.

    Args:
        filling: The slots, the tool and the texts.
    """

    provider = PROVIDER

    def __init__(self, filling: SlotFilling) -> None:
        self._filling = filling

    async def generate(self, request: GenerateRequest) -> AsyncGenerator[LLMEvent, None]:
        """Run one step.

        Raises:
            ProviderError: The tool of the slot filling is not among those of the request.
        """
        state = replay(self._filling, request.context)
        if request.extra_instructions.strip():
            hear(self._filling, state, request.extra_instructions)
        if request.tool_choice.mode != "none" and self._wants_call(state):
            yield self._call(state, request)
            yield Usage()
            yield Done("tool_calls")
            return
        for delta in _sentences(self._text(state)):
            yield TextDelta(delta)
        yield Usage()
        yield Done("stop")

    def _wants_call(self, state: State) -> bool:
        filling = self._filling
        if not filling.tool or state.has_failed or state.missing(filling) is not None:
            return False
        if state.understood not in (Understood.VALUES, Understood.YES):
            return False
        return state.called != state.values and (state.is_confirmed or not filling.confirm)

    def _call(self, state: State, request: GenerateRequest) -> ToolCall:
        name = self._filling.tool
        if name not in [tool.name for tool in request.tools]:
            raise ProviderError(
                f"the SlotFilling calls the tool {name!r}, the agent has {[tool.name for tool in request.tools]!r}; "
                "give the agent that tool",
                provider=PROVIDER,
            )
        arguments = {slot.name: state.values[slot.name] for slot in self._filling.slots}
        return ToolCall(call_id=new_id("call"), name=name, arguments=json.dumps(arguments))

    def _text(self, state: State) -> str:
        filling = self._filling
        match state.understood:
            case Understood.FAREWELL:
                return filling.goodbye
            case Understood.TOOL:
                return f"{self._outcome(state)} {self._question(state)}"
            case Understood.VALUES if state.is_done(filling):
                return f"{filling.say(filling.done, state.values, state.output)} {self._question(state)}"
            case Understood.VALUES:
                heard = (slot.heard.format(value=slot.say(state.values[slot.name])) for slot in state.last_filled)
                return f"{' '.join(heard)} {self._question(state)}"
            case Understood.SMALL_TALK:
                return f"{self._small_talk(state)} {self._question(state)}"
            case Understood.NOTHING:
                return f"{filling.fallback} {self._question(state)}"
            case Understood.UNCLEAR:
                return filling.change
            case Understood.NO if state.missing(filling) is None:
                return filling.change
            case _:
                return self._question(state)

    def _outcome(self, state: State) -> str:
        filling = self._filling
        if state.has_failed:
            return filling.say(filling.failed, state.values, state.output)
        template = filling.changed if filling.changed and state.successes > 1 else filling.done
        return filling.say(template, state.values, state.output)

    def _small_talk(self, state: State) -> str:
        return next(a.text for a in self._filling.answers if matches(a.pattern, state.text))

    def _question(self, state: State) -> str:
        """Return the open question: the next slot, the confirmation, or whether there is anything else."""
        filling = self._filling
        missing = state.missing(filling)
        if missing is not None:
            return missing.ask
        if state.has_failed:
            return filling.retry
        if filling.confirm and not state.is_confirmed:
            return filling.say(filling.confirm, state.values)
        return filling.anything_else


def _sentences(text: str) -> Iterator[str]:
    """Yield the text in sentences; joined, they are the text again."""
    yield from re.findall(r"\S.*?(?:[.!?]+(?:\s+|$)|$)", text.strip(), re.DOTALL)
