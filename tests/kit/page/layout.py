"""Layout of the browser page: widths of screens, and the controls that something covers or that overflow."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from playwright.async_api import Page

SCREENS = ((360, 640), (390, 844), (768, 1024), (820, 1180), (1024, 768), (1440, 900))
"""Sizes of windows, from a small telephone to a desktop."""
SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")

MISPLACED = """
() => {
    const CONTROLS = 'button, input, select, textarea, summary, a[href]';
    const PARTS = '.top, .stage, .banner, .composer, .dock, .sheet, .lobby, .turns, .log';
    const POPUPS = '.sheet, .health dl';  // they may cover what lies behind them, but not the controls of the call
    const problems = [];
    const isShown = (e) => e.checkVisibility({ visibilityProperty: true }) && !e.closest('.hidden');
    const name = (e) => e.id || `${e.tagName.toLowerCase()} "${e.textContent.trim().slice(0, 24)}"`;
    const isInside = (a, b) => a.left >= b.left - 1 && a.right <= b.right + 1;
    const controls = [...document.querySelectorAll(CONTROLS)].filter(isShown);
    const screen = { left: 0, right: innerWidth };

    for (const part of [document.documentElement, ...document.querySelectorAll(PARTS)].filter(isShown)) {
        const its = part.className || 'page';
        if (part.scrollWidth > part.clientWidth + 1) problems.push(`the ${its} overflows sideways`);
        if (!isInside(part.getBoundingClientRect(), screen)) problems.push(`the ${its} is outside the window`);
    }
    if (document.body.dataset.state === 'connected' && document.documentElement.scrollHeight > innerHeight + 1) {
        problems.push('the page scrolls in a call');
    }
    const inDock = controls.filter((e) => e.matches('.dock .control'));
    const rows = new Set(inDock.map((e) => Math.round(e.getBoundingClientRect().top)));
    if (rows.size > 1) problems.push('the controls of the call have several rows');
    for (const control of controls) {
        control.scrollIntoView({ block: 'nearest' });
        const box = control.getBoundingClientRect(), part = control.closest(PARTS);
        const label = control.closest('.dock') ? control.querySelector('span') : null;
        if (label && label.getBoundingClientRect().height > 1.9 * parseFloat(getComputedStyle(label).fontSize)) {
            problems.push(`the text of ${name(control)} has several lines`);
        }
        const isCut = control.matches('button, summary') && control.scrollWidth > control.clientWidth + 1;
        if (isCut) problems.push(`the text of ${name(control)} is cut`);
        const isOut = part && !isInside(box, part.getBoundingClientRect());
        if (isOut) problems.push(`${name(control)} overflows the ${part.className}`);
        if (box.top < -1 || box.bottom > innerHeight + 1) problems.push(`${name(control)} is outside the window`);
        const x = (box.left + box.right) / 2, y = (box.top + box.bottom) / 2;
        const edges = [[box.left + 2, y], [box.right - 2, y], [x, box.top + 2], [x, box.bottom - 2]];
        for (const point of [[x, y], ...edges]) {
            const hit = document.elementFromPoint(...point);
            if (hit && [control, ...(control.labels ?? [])].some((e) => e.contains(hit))) continue;
            if (hit?.closest(POPUPS) && !control.closest('.dock')) continue;
            problems.push(`${name(control)} is covered by ${hit ? name(hit) : 'nothing of the page'}`);
            break;
        }
    }
    for (const [number, one] of controls.entries()) {
        for (const other of controls.slice(number + 1)) {
            const a = one.getBoundingClientRect(), b = other.getBoundingClientRect();
            const isPopup = [one, other].some((e) => e.closest(POPUPS));
            if (isPopup || one.contains(other) || other.contains(one)) continue;
            const wide = Math.min(a.right, b.right) - Math.max(a.left, b.left);
            const high = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
            const isInDock = one.closest('.dock') && other.closest('.dock');
            if (isInDock && wide > -5 && high > 1) problems.push(`the outline of ${name(one)} covers ${name(other)}`);
            if (wide > 1 && high > 1) problems.push(`${name(one)} and ${name(other)} overlap`);
        }
    }
    return problems;
}
"""


async def misplaced(page: Page, face: str, folder: Path | None) -> list[str]:
    """Show the page on each screen, light and dark where pictures are taken; return its misplaced controls.

    Args:
        page: The page, with what it shows now.
        face: What that is, for the pictures' names.
        folder: The folder of the pictures; None: none are taken.
    """
    found = []
    for width, height in SCREENS:
        await page.set_viewport_size({"width": width, "height": height})
        for scheme in SCHEMES if folder is not None else SCHEMES[:1]:
            await page.emulate_media(color_scheme=scheme)
            problems = await page.evaluate(MISPLACED)
            found += [f"{face} at {width} px, {scheme}: {problem}" for problem in problems]
            if folder is not None:
                await page.screenshot(path=folder / f"{face}-{width}-{scheme}.png")
    return found


async def misplaced_between(page: Page, face: str, widths: range) -> list[str]:
    """Return the misplaced controls at each of these widths."""
    found = []
    for width in widths:
        await page.set_viewport_size({"width": width, "height": 800})
        found += [f"{face} at {width} px: {problem}" for problem in await page.evaluate(MISPLACED)]
    return found
