"""ContentGuard: application code that judges text before it is heard, and its verdicts."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Literal

from vivavoce.pipelines.core.checks import check_choice, check_flag, check_function, check_number, check_text
from vivavoce.pipelines.core.errors import ConfigurationError

GuardAction = Literal["pass", "hold", "replace", "end"]
"""The action on a text: it goes on; it is held back; another text replaces it; the answer ends."""
SaidBy = Literal["agent", "caller"]


@dataclass(frozen=True, slots=True)
class GuardVerdict:
    """A guard's verdict on a text.

    | action | a sentence of the agent | a turn of the caller |
    |---|---|---|
    | `pass` | is spoken | goes to the model |
    | `hold` | is not spoken; the next one is judged | is in no history, and nothing answers it |
    | `replace` | `text` is spoken instead | `text` goes to the model, and is in the history |
    | `end` | is not spoken; `text`, if any, is the end of the answer | `text`, if any, is the answer; as `hold` |

    Args:
        text: Of the actions `replace` and `end`.
    """

    action: GuardAction = "pass"
    text: str = field(default="", repr=False)

    def __post_init__(self) -> None:
        check_choice("action", self.action, ("pass", "hold", "replace", "end"))
        object.__setattr__(self, "text", check_text("text", self.text))
        if self.text and self.action not in ("replace", "end"):
            raise ConfigurationError(f"a verdict {self.action!r} takes no text; only 'replace' and 'end' do")
        if self.action == "replace" and not self.text.strip():
            raise ConfigurationError("a verdict to replace a text needs another text, got ''; hold it back instead")


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardedText:
    """A text to be judged.

    Args:
        text: A sentence of the agent, a whole answer of a realtime model that speaks, or the caller's turn.
        said_by: Who says it.
        before: The part of the agent's answer that has passed.
        turn_id: As in records.
    """

    text: str = field(repr=False)
    said_by: SaidBy
    before: str = field(default="", repr=False)
    turn_id: str = ""


Judge = Callable[[GuardedText], "Awaitable[GuardVerdict | None] | GuardVerdict | None"]
"""Returns a verdict; None is `pass`. A sync one runs on the event loop and must not block it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContentGuard:
    """Judges each sentence of the agent before the voice gets it, and each turn of the caller before the model does.

    Costs and limits:

    * The voice receives whole sentences, each after its verdict. The first one delays the answer, by the time that the
      verdict takes: the stage `guard` of the turn's record. Later ones are judged while the agent speaks.
    * Text that does not pass is neither heard nor in the history. The tools that the answer calls are not judged.
    * Words of `say()` are the application's own: they are not judged.
    * A realtime model that speaks is held back until its whole answer has been judged by its transcript, since the
      audio of a sentence cannot be told apart: the answer begins later by the time in which it is generated. If a
      sentence does not pass, the answer is not heard; the text of the verdict is spoken, if the pipeline can say it.
    * No model gets words of the caller before their verdict, also if their turn was interrupted or superseded while it
      was judged: the next request waits for the verdict. A correction by a late transcript is judged like a new turn;
      one that changes only the spelling of words that were replaced is dropped. The history, its sink and its events
      have the words while they wait; the hook `on_user_turn_completed` gets those of its own turn. Behind the verdict
      the turn's record, the report and the spans have the words that are in the history, and no others. Transcripts
      (event, room, stream of the memory), a recording and a trace have what was heard.
    * The caller's words cannot be kept from a realtime model that hears them: such a session refuses a guard of the
      caller; give `caller=False`.
    * With a guard of the caller, no answer is begun before the turn is over; with a guard of the agent, the voice does
      not begin before that.

    Each option: docs/options.md.
    """

    judge: Judge
    """Returns the verdict: a function, or `ModelJudge`."""
    agent: bool = True
    """Whether it judges the agent."""
    caller: bool = True
    """Whether it judges the caller."""
    limit: float = 1.0
    """Seconds for one verdict."""
    on_failure: Literal["hold", "pass"] = "hold"
    """The action on a text whose judge raises or is late, which is an `error` event too. `hold`: it is held back, since
    speech that was heard cannot be taken back. `pass`: it goes on without a verdict."""

    def __post_init__(self) -> None:
        check_function("judge", self.judge, remedy="give a function of a GuardedText, or ModelJudge(llm, rules)")
        for name in ("agent", "caller"):
            check_flag(name, getattr(self, name))
        if not (self.agent or self.caller):
            raise ConfigurationError("need agent=True or caller=True, got neither; leave the guard out")
        check_number("limit", self.limit, above=0, unit="s")
        check_choice("on_failure", self.on_failure, ("hold", "pass"))
