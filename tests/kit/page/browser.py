"""Runs the real Chromium, headless, with a WAV file as its microphone."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import anyio
from anyio.from_thread import BlockingPortal, start_blocking_portal
from playwright.async_api import Browser, Page, async_playwright

from kit.servers.missing import missing
from vivavoce.agents.page.server import PageServer

FLAGS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--autoplay-policy=no-user-gesture-required",
)  # fmt: skip
FAKE_DEVICE = "--use-fake-device-for-media-stream"
ALLOWED = "--use-fake-ui-for-media-stream"
"""The user allows the microphone at once."""


def chromium_path() -> str:
    """Return Debian's Chromium; skip or fail the test where there is none."""
    path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    return path or missing("chromium", "apt install chromium")


@asynccontextmanager
async def chromium(
    microphone: Path | None = None, *, loops: bool = False, flags: Sequence[str] = (ALLOWED,)
) -> AsyncIterator[Browser]:
    """Run a browser.

    Args:
        microphone: 48 kHz mono WAV, heard from the moment the page opens the microphone; None: Chromium's beeps.
        loops: Begin the file again at its end; else silence follows.
        flags: More flags; without `ALLOWED` the microphone is refused.
    """
    fake = [FAKE_DEVICE]
    if microphone is not None:
        fake.append(f"--use-file-for-fake-audio-capture={microphone}{'' if loops else '%noloop'}")
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=chromium_path(), headless=True, args=[*FLAGS, *fake, *flags]
        )
        try:
            yield browser
        finally:
            await browser.close()


class ModulesPage:
    """A page at the page's own address, so that it may import the page's modules; its loop is in another thread."""

    def __init__(self, portal: BlockingPortal, page: Page) -> None:
        self._portal = portal
        self._page = page

    def evaluate(self, script: str, argument: Any = None, *, limit: float = 60.0) -> Any:
        """Run a function in the page and return its result.

        Raises:
            TimeoutError: It has not returned within `limit` seconds.
        """
        return self._portal.call(self._evaluate, script, argument, limit)

    async def _evaluate(self, script: str, argument: Any, limit: float) -> Any:
        with anyio.fail_after(limit):
            return await self._page.evaluate(script, argument)


@contextmanager
def page_for_modules() -> Iterator[ModulesPage]:
    """Open one page for all tests of a module: a browser for each of them would take most of their time."""
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(_served_page()) as page:
        yield ModulesPage(portal, page)


@asynccontextmanager
async def _served_page() -> AsyncIterator[Page]:
    async with (
        PageServer("ws://127.0.0.1:9", "key", "a-secret-of-at-least-thirty-two-characters") as server,
        chromium() as browser,
    ):
        page = await browser.new_page()
        await page.goto(server.address)
        yield page
