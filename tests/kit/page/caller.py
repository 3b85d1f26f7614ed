"""A user of the browser page: clicks, types, reads, and measures the audio."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from playwright.async_api import Browser, ConsoleMessage, Page

from kit.page.browser import ALLOWED, chromium

LIMIT = 45.0
"""Seconds that the page may take for one thing; it takes about one on an idle machine."""
AUDIBLE = 0.01
"""RMS (of 1) that only a voice reaches."""
POLL = """
([argument, limit]) => new Promise((resolve) => {
    const test = TEST, end = performance.now() + limit;
    const look = () => test(argument) ? resolve(true) : performance.now() > end ? resolve(false) : setTimeout(look, 20);
    look();
})
"""
WATCH = """
() => {
    window.seen = [];
    new MutationObserver(() => {
        for (const entry of document.querySelectorAll('#log .said')) {
            const now = [entry.classList.contains('user') ? 'user' : 'agent', entry.querySelector('.words').textContent,
                         entry.dataset.final === 'true'];
            if (entry.seen !== JSON.stringify(now)) { entry.seen = JSON.stringify(now); window.seen.push(now); }
        }
    }).observe(document.getElementById('log'),
               { subtree: true, childList: true, characterData: true, attributes: true });
    window.titles = [];
    const title = document.getElementById('banner-title');
    new MutationObserver(() => window.titles.push(title.textContent)).observe(title, { childList: true });
}
"""
LISTEN = """
// Measured on the audio elements themselves, apart from the page's own meters. Silence is below 0.002.
() => {
    const context = new AudioContext(), node = context.createAnalyser(), data = new Float32Array(2048);
    node.fftSize = 2048;
    const heard = new Set();
    window.loudness = () => {
        for (const audio of document.querySelectorAll('audio')) {
            if (audio.srcObject && !audio.paused && !heard.has(audio)) {
                heard.add(audio);
                context.createMediaStreamSource(audio.srcObject).connect(node);
            }
        }
        node.getFloatTimeDomainData(data);
        return Math.sqrt(data.reduce((sum, x) => sum + x * x, 0) / data.length);
    };
    window.quietSince = performance.now();
    setInterval(() => { if (window.loudness() > 0.002) window.quietSince = performance.now(); }, 20);
}
"""
SOCKETS = """
window.sockets = [];
window.WebSocket = class extends WebSocket {
    constructor(...given) { super(...given); window.sockets.push(this); }
};
"""


@dataclass
class Caller:
    """One page in a browser."""

    page: Page
    problems: list[str] = field(default_factory=list)
    """Exceptions in the page, and refusals of its policy."""

    async def click(self, id_: str) -> None:
        await self.page.click(f"#{id_}", timeout=LIMIT * 1000)

    async def until(self, condition: str, argument: object = None) -> None:
        """Wait until this JavaScript condition (an expression, or a function of `argument`) holds."""
        test = condition if condition.startswith("(") else f"() => {condition}"
        # Playwright's own waiting needs `eval` in the page, which the page's policy forbids.
        watch = POLL.replace("TEST", test)
        if not await self.page.evaluate(watch, [argument, LIMIT * 1000]):
            raise AssertionError(f"not within {LIMIT} s: {condition}\n{await self.page.inner_text('body')}")

    async def in_call(self) -> None:
        """Wait until the call is connected."""
        await self.until("document.body.dataset.state === 'connected'")

    async def audible(self) -> None:
        """Wait until a voice can be heard."""
        await self.until(f"window.loudness() > {AUDIBLE}")

    async def silent(self, seconds: float = 1.0) -> None:
        """Wait until nothing has been heard for so long."""
        await self.until(f"performance.now() - window.quietSince > {1000 * seconds}")

    async def caption(self, side: str, text: str, *, is_final: bool = True) -> None:
        """Wait until one side is shown to say exactly this."""
        await self.until(
            "([side, text, isFinal]) => window.seen.some((s) => s[0] === side && s[1] === text && s[2] === isFinal)",
            [side, text, is_final],
        )

    async def seen(self) -> list[tuple[str, str, bool]]:
        """Return every state of every caption so far: side, text, whether final."""
        return [(side, text, is_final) for side, text, is_final in await self.page.evaluate("window.seen")]

    async def titles(self) -> list[str]:
        """Return the titles of all messages above the conversation so far."""
        return list(await self.page.evaluate("window.titles"))

    async def type(self, text: str) -> None:
        await self.page.fill("#line", text)
        await self.page.press("#line", "Enter")

    async def text(self, selector: str) -> str:
        return await self.page.inner_text(selector)


@asynccontextmanager
async def opened(browser: Browser, address: str, *, script: str = "", **context: Any) -> AsyncIterator[Caller]:
    """Open the page, which runs `script` before its own code; any error inside it fails the test at the end."""
    tab = await browser.new_context(**context)
    page = await tab.new_page()
    caller = Caller(page)
    page.on("pageerror", lambda error: caller.problems.append(str(error)))

    def on_console(line: ConsoleMessage) -> None:
        if "Content Security Policy" in line.text:
            caller.problems.append(line.text)

    page.on("console", on_console)
    await page.add_init_script(SOCKETS + script)
    await page.goto(address)
    await page.evaluate(WATCH)
    await page.evaluate(LISTEN)
    try:
        yield caller
    finally:
        await tab.close()
    assert caller.problems == []


@asynccontextmanager
async def calling(
    address: str, microphone: Path | None = None, *, loops: bool = False, allowed: bool = True, **context: Any
) -> AsyncIterator[Caller]:
    """Run a browser and open the page in it."""
    flags = (ALLOWED,) if allowed else ()
    async with (
        chromium(microphone, loops=loops, flags=flags) as browser,
        opened(browser, address, **context) as caller,
    ):
        yield caller
