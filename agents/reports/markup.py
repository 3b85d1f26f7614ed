"""HTML and SVG as elements: all text is escaped when it is written, so no text becomes markup."""

from __future__ import annotations

import re
from collections.abc import Collection
from xml.etree import ElementTree

Element = ElementTree.Element
Child = Element | str | None

_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f]")


def el(tag: str, *children: Child, **attributes: object) -> Element:
    """Return an element. Attributes are named `class_`, `aria_label`, `stroke_width`; None omits one."""
    element = ElementTree.Element(tag)
    for name, value in attributes.items():
        if value is not None:
            element.set(name.rstrip("_").replace("_", "-"), _clean(str(value)))
    last: Element | None = None
    for child in children:
        if child is None:
            continue
        if isinstance(child, str):
            if last is None:
                element.text = (element.text or "") + _clean(child)
            else:
                last.tail = (last.tail or "") + _clean(child)
        else:
            element.append(child)
            last = child
    return element


def to_html(element: Element) -> str:
    """Return the element as HTML."""
    return ElementTree.tostring(element, encoding="unicode", method="html")


def table(headings: list[str], rows: list[list[Child]], *, caption: str, numbers: Collection[int] = ()) -> Element:
    """Return a table that scrolls by itself on a narrow screen; the columns of `numbers`, from 0, hold numbers."""
    kinds = ["number" if column in numbers else "" for column in range(len(headings))]
    head = el(
        "tr", *(el("th", text, scope="col", class_=kind or None) for text, kind in zip(headings, kinds, strict=True))
    )
    body = [
        el("tr", *(el("td", cell, class_=kind or None) for cell, kind in zip(row, kinds, strict=True))) for row in rows
    ]
    inner = el("table", el("caption", caption), el("thead", head), el("tbody", *body))
    return el("div", inner, class_="scroll", tabindex="0", role="region", aria_label=caption)


def milliseconds(seconds: float | None) -> str:
    """Return a duration as text, for example `640 ms`."""
    return "–" if seconds is None else f"{1000 * seconds:.0f} ms"


def clock(seconds: float) -> str:
    """Return a time as text, for example `1:05.2`."""
    minutes, rest = divmod(max(0.0, round(seconds, 1)), 60)
    return f"{int(minutes)}:{rest:04.1f}"


def words(name: str) -> str:
    """Return a field's value as words: `participant_left` as `participant left`."""
    return name.replace("_", " ")


def _clean(text: str) -> str:
    return _CONTROL.sub("\ufffd", text)
