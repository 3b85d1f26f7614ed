"""The port by which memory, budget, graph, dialogues, and what an application adds, hang at a session.

* `extension`: `Extension`, the value that an application gives; `Attached`, its part of one session; `Host`, the
  session as that part knows it.
* `turn_in_hand`: `TurnInHand`, a turn of the caller on the way to its answer.
* `attachments`: the extensions of one session, and the calls to them in their order.
* `text_parts`: the text by which an extension answers.
* `withheld_speech`: which extensions let no speech of the agent begin.
* `keys`, `given`: checks of keys, and of the values that an extension gives.

An extension is called at a few fixed moments; everything else it reads from the events of `host.context.log`. `open`,
`begin`, `on_turn`, `on_tool_result` and `aclose` may wait, and each of these has a limit; all other calls are
synchronous, on the session's event loop. Long work belongs in `host.context.group`.

*Start*: `attach` in the constructor, `check`, `restore` of a snapshot, `open` before the room is joined, `link` once
there is a transport, `begin` when all parts run, the agent's `on_enter`, `entered`. A session that takes over the
conversation of another one is in its room by then: `restore`, `open` and `link` come when it has the conversation.
*Turn*: the agent's hook, the content guard, `on_turn` of one extension after the other until one answers or drops the
turn, and the request with the material of all. Where an answer is begun ahead, `on_turn` of the extensions that judge
words comes in its task, and not again if the turn ends with the same words. Where a turn is taken back, its `on_turn`
is cancelled, and `undo` comes when that has ended.
*Close*: `end` of all, and the `on_turn` that runs is cancelled; `aclose` as a step behind the one that `close_after`
names, in the opposite order of the start, and `release` when the session is over.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vivavoce.pipelines.core.lazy import lazy_names

if TYPE_CHECKING:
    from vivavoce.agents.core.context import Additions
    from vivavoce.agents.extension.extension import Attached, Extension, Host
    from vivavoce.agents.extension.text_parts import TextParts
    from vivavoce.agents.extension.turn_in_hand import TurnInHand

_PLACES = {
    "vivavoce.agents.core.context": "Additions",
    "vivavoce.agents.extension.extension": "Attached Extension Host",
    "vivavoce.agents.extension.text_parts": "TextParts",
    "vivavoce.agents.extension.turn_in_hand": "TurnInHand",
}

__all__ = ["Additions", "Attached", "Extension", "Host", "TextParts", "TurnInHand"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_names(__name__, _PLACES)
