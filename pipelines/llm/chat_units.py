"""Units: items that must stay together, and the part of a conversation that fits into a limit without parting them.

Of what does not fit, long tool results are shortened first, then the oldest units are left out.

A model refuses a tool call without its output, and an output without its call. So code that leaves items out does it by
units: a call, its output and the items between them are one; with parallel calls, the whole step is one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace

from vivavoce.pipelines.core.words import cluster_start
from vivavoce.pipelines.llm.chat_items import ChatItem, ChatMessage, FunctionCall, FunctionCallOutput

TokenCounter = Callable[[ChatItem], int]
"""Returns the tokens of an item in a request."""

BYTES_PER_TOKEN = 4
TOKENS_PER_ITEM = 4
TOKENS_PER_IMAGE = 800
LONG_RESULT = 4
"""A tool result is long if it takes more than one part in so many of the tokens of a request: a quarter."""
LEFT_OUT = "\n[… {} characters left out …]\n"

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


def answered(items: Sequence[ChatItem], turn_id: str = "") -> ChatMessage | None:
    """Return the message of the user that the next answer is to, or None if an answer of the agent came last.

    Args:
        turn_id: The turn that is answered; by default the turn of the newest call, if nothing was said after it.
    """
    is_open = bool(turn_id)
    for item in reversed(items):
        if isinstance(item, FunctionCall | FunctionCallOutput):
            turn_id, is_open = turn_id if is_open else item.turn_id, True
        elif isinstance(item, ChatMessage) and item.role == "assistant" and not is_open:
            return None
        elif isinstance(item, ChatMessage) and item.role == "user" and not item.backchannel:
            if not turn_id or item.turn_id == turn_id:
                return item
    return None


def shortened(items: Sequence[ChatItem], max_tokens: int, count_tokens: TokenCounter) -> list[ChatItem]:
    """Return the items, with long tool results cut to their beginning and end if not all items fit."""
    if sum(map(count_tokens, items)) <= max_tokens:
        return list(items)
    made = _all_cut(items, max_tokens / LONG_RESULT, count_tokens)
    step = units(made)[-1]
    parts = 1 + sum(isinstance(item, FunctionCallOutput) for item in step)
    if parts <= LONG_RESULT or sum(map(count_tokens, step)) <= max_tokens:
        return made
    return _all_cut(items, max_tokens / parts, count_tokens)  # the results of parallel calls share the request


def _all_cut(items: Sequence[ChatItem], limit: float, count_tokens: TokenCounter) -> list[ChatItem]:
    return [_cut(item, limit, count_tokens) if isinstance(item, FunctionCallOutput) else item for item in items]


def _cut(item: FunctionCallOutput, limit: float, count_tokens: TokenCounter) -> FunctionCallOutput:
    text, kept, cut = item.output, len(item.output), item
    whole = used = count_tokens(item)
    while used > limit and kept > 0:
        kept = min(int(kept * limit / used), kept * 31 // 32)
        head, tail = cluster_start(text, kept // 2), cluster_start(text, len(text) - kept // 2)
        cut = replace(item, output=text[:head] + LEFT_OUT.format(tail - head) + text[tail:])
        used = count_tokens(cut)
    return cut if used < whole else item


def completed(
    part: Sequence[ChatItem], whole: Sequence[ChatItem], needed: Collection[str], message: ChatMessage | None = None
) -> list[ChatItem]:
    """Return `part`, made from `whole`, with the missing items added, each in its place.

    These are the other half of each call or output that it has, and, for each id in `needed`, the call made last, with
    its output: if an id is used again before its first call is answered, that is not the one answered last.

    Args:
        message: The user's message that is answered. It is added too, unless `part` ends with another message of the
            user, which is not in `whole`: that one stands for it.
    """
    present = {item.id for item in part}
    missing: set[str] = set()
    if message is not None and message.id not in present and not _ends_with_own_message(part, whole):
        missing.add(message.id)
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


def _ends_with_own_message(part: Sequence[ChatItem], whole: Sequence[ChatItem]) -> bool:
    last = next((item for item in reversed(part) if isinstance(item, ChatMessage)), None)
    return last is not None and last.role == "user" and all(item.id != last.id for item in whole)


def newest(
    items: Sequence[ChatItem],
    *,
    max_items: int | None,
    max_tokens: int | None,
    count_tokens: TokenCounter,
    keep_system: bool,
) -> list[ChatItem]:
    """Return the newest items that fit both limits, in order, with long tool results shortened first.

    The newest unit is kept in any case, and so is the user's message that is answered, and with `keep_system` all
    messages of the system; they count.
    """
    if max_tokens is not None:
        items = shortened(items, max_tokens, count_tokens)
    message = answered(items)
    system = {item.id for item in items if keep_system and isinstance(item, ChatMessage) and item.role == "system"}
    room = math.inf if max_items is None else max_items - len(system)
    tokens = math.inf if max_tokens is None else max_tokens - sum(count_tokens(i) for i in items if i.id in system)
    if message is not None:
        room -= 1
        tokens -= 0 if max_tokens is None else count_tokens(message)
    kept: set[str] = set()
    for unit in reversed(units(items)):
        new = [item for item in unit if item.id not in system]
        counted = [item for item in new if item is not message]
        room -= len(counted)
        if max_tokens is not None:
            tokens -= sum(map(count_tokens, counted))
        if kept and (room < 0 or tokens < 0):
            break
        kept.update(item.id for item in new)
    if message is not None:
        kept.add(message.id)
    return [item for item in items if item.id in kept or item.id in system]
