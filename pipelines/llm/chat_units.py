"""Units: items that must stay together, and the part of a conversation that fits into a limit without parting them.

A model refuses a tool call without its output, and an output without its call. So code that leaves items out does it by
units: a call, its output and the items between them are one; with parallel calls, the whole step is one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Sequence

from vivavoce.pipelines.llm.chat_items import ChatItem, ChatMessage, FunctionCall, FunctionCallOutput

TokenCounter = Callable[[ChatItem], int]
"""Returns the tokens of an item in a request."""

BYTES_PER_TOKEN = 4
TOKENS_PER_ITEM = 4
TOKENS_PER_IMAGE = 800

Unit = tuple[ChatItem, ...]


def estimate_tokens(item: ChatItem) -> int:
    """Return a rough count that knows no model's vocabulary: 4 for the item, and 1 for each 4 bytes of its UTF-8 text.

    English texts come out within about a fifth of the counts of common models; a picture counts 800. Items that no
    model receives count nothing.
    """
    if isinstance(item, ChatMessage):
        text, images = item.content, len(item.images)
    elif isinstance(item, FunctionCall):
        text, images = item.name + item.arguments, 0
    elif isinstance(item, FunctionCallOutput):
        text, images = item.output, 0
    else:
        return 0
    size = len(text.encode())
    return TOKENS_PER_ITEM + math.ceil(size / BYTES_PER_TOKEN) + TOKENS_PER_IMAGE * images


def pairs(items: Sequence[ChatItem]) -> list[tuple[int, int]]:
    """Return the places (call, output) of calls that have their output, by the output's place.

    An output belongs to the nearest call before it that has its `call_id` and no output yet: some servers use an id
    more than once.
    """
    waiting: dict[str, list[int]] = {}
    found: list[tuple[int, int]] = []
    for place, item in enumerate(items):
        if isinstance(item, FunctionCall):
            waiting.setdefault(item.call_id, []).append(place)
        elif isinstance(item, FunctionCallOutput) and waiting.get(item.call_id):
            found.append((waiting[item.call_id].pop(), place))
    return found


def units(items: Sequence[ChatItem]) -> list[Unit]:
    """Return the items in order, cut at each place that parts no call from its output."""
    reach = list(range(len(items)))  # the last place that must stay with this one
    for call, output in pairs(items):
        reach[call] = output
    cut: list[Unit] = []
    start = end = 0
    for place in range(len(items)):
        end = max(end, reach[place])
        if place == end:
            cut.append(tuple(items[start : place + 1]))
            start = end = place + 1
    return cut


def without_halves(items: Sequence[ChatItem], kept: Iterable[ChatItem]) -> list[ChatItem]:
    """Return the items of `kept`, a part of `items`, that have not lost the other half of their call."""
    ids = {item.id for item in kept}
    for call, output in pairs(items):
        if (items[call].id in ids) != (items[output].id in ids):
            ids -= {items[call].id, items[output].id}
    return [item for item in items if item.id in ids]


def completed(part: Sequence[ChatItem], whole: Sequence[ChatItem], needed: Collection[str]) -> list[ChatItem]:
    """Return `part`, made from `whole`, with the missing halves added, each in its place.

    These are the other half of each call or output that it has, and, for each id in `needed`, the call made last, with
    its
    output: if an id is used again before its first call is answered, that is not the one answered last.
    """
    present = {item.id for item in part}
    missing: set[str] = set()
    wanted = set(needed)
    for call, output in sorted(pairs(whole), reverse=True):
        made, came = whole[call], whole[output]
        is_needed = isinstance(made, FunctionCall) and made.call_id in wanted
        if is_needed or made.id in present or came.id in present:
            missing |= {made.id, came.id} - present
            wanted -= {made.call_id} if isinstance(made, FunctionCall) else set()
    if not missing:
        return list(part)
    result = list(part)
    first_known = {item.id for item in whole}
    place = next((n for n, item in enumerate(result) if item.id in first_known), len(result))
    places = {item.id: n for n, item in enumerate(result)}
    added: list[tuple[int, ChatItem]] = []
    for item in whole:
        if item.id in missing:
            added.append((place, item))
        elif item.id in places:
            place = max(place, places[item.id] + 1)
    for place, item in reversed(added):
        result.insert(place, item)
    return result


def newest(
    items: Sequence[ChatItem],
    *,
    max_items: int | None,
    max_tokens: int | None,
    count_tokens: TokenCounter,
    keep_system: bool,
) -> list[ChatItem]:
    """Return the newest items that fit both limits, in order.

    The newest unit is kept in any case, and with `keep_system` all messages of the system; both count.
    """
    system = {item.id for item in items if keep_system and isinstance(item, ChatMessage) and item.role == "system"}
    room = math.inf if max_items is None else max_items - len(system)
    tokens = math.inf if max_tokens is None else max_tokens - sum(count_tokens(i) for i in items if i.id in system)
    kept: set[str] = set()
    for unit in reversed(units(items)):
        new = [item for item in unit if item.id not in system]
        room -= len(new)
        if max_tokens is not None:
            tokens -= sum(map(count_tokens, new))
        if kept and (room < 0 or tokens < 0):
            break
        kept.update(item.id for item in new)
    return [item for item in items if item.id in kept or item.id in system]
