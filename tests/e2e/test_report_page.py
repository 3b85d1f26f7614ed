"""The page of a real demo call in real Chromium: whole, readable on a phone too, and without a network."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Page

from kit.e2e.demo_run import Ran
from kit.page.browser import chromium

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(180)]

SIZES = {"desktop": (1280, 900), "phone": (390, 844)}
SECTIONS = ["Timeline", "Turns", "Latency", "Usage", "Errors", "Close", "Session"]
COMMAND = [sys.executable, "-c", "from vivavoce.agents.cli import main; main()", "report"]


@asynccontextmanager
async def shown(path: Path, size: str = "desktop", scheme: Any = "light") -> AsyncIterator[Page]:
    """Open a page; afterwards nothing was complained about, and nothing was asked of a network."""
    width, height = SIZES[size]
    async with chromium() as browser:
        context = await browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
        page = await context.new_page()
        complaints: list[str] = []
        asked: list[str] = []
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda request: asked.append(request.url[:80]))
        await page.goto(path.as_uri())
        yield page
        assert complaints == []
        assert [url for url in asked if not url.startswith(("file:", "data:"))] == []
        assert path.as_uri()[:80] in asked, "requests were not seen"


async def until(page: Page, test: str) -> None:
    """Wait for a condition; the page's policy forbids Playwright's own way."""
    look = f"const look = () => ({test}) ? done(true) : performance.now() > end ? done(false) : setTimeout(look, 20);"
    poll = f"new Promise((done) => {{ const end = performance.now() + 20000; {look} look(); }})"
    assert await page.evaluate(poll), test


@pytest.fixture(scope="module")
def with_sound(on_embedded: Ran, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page that the command makes of the demo's report, the sound in it."""
    page = tmp_path_factory.mktemp("page") / "call.html"
    report = on_embedded.folder / "report.json"
    done = subprocess.run(
        [*COMMAND, str(report), "-o", str(page), "--audio"], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return page


@pytest.mark.parametrize(
    ("size", "scheme"),
    [
        ("desktop", "light"),
        *(
            pytest.param(size, scheme, marks=pytest.mark.test_all("one size and scheme is enough for make test"))
            for size, scheme in (("desktop", "dark"), ("phone", "light"), ("phone", "dark"))
        ),
    ],
)
async def test_the_page_has_everything_fits_the_screen_and_is_accessible(
    on_embedded: Ran, size: str, scheme: str
) -> None:
    axe = files("axe_playwright_python").joinpath("axe.min.js").read_text()
    async with shown(on_embedded.folder / "call.html", size, scheme) as page:
        width = SIZES[size][0]
        assert await page.evaluate("document.documentElement.scrollWidth") == width
        assert await page.locator("h2").evaluate_all("all => all.map(e => e.firstChild.textContent)") == SECTIONS
        await _shows_the_turns(page, on_embedded.report["turns"])
        for text in ("p95", "end to end", "vad silence", "characters spoken", "Participant left"):
            assert text in await page.inner_text("main"), text
        cut = await page.evaluate(
            "[...document.querySelectorAll('h1, h3, dd, .said, .facts li')]"
            ".filter(e => e.scrollWidth > e.clientWidth + 1).map(e => e.textContent)"
        )
        assert cut == []
        await page.evaluate(axe + "\n;0")
        found = await page.evaluate("axe.run(document, { resultTypes: ['violations'] })")
        assert len(found["passes"]) > 15, "axe looked at nothing"
        assert [(rule["id"], node["html"][:120]) for rule in found["violations"] for node in rule["nodes"]] == []


async def _shows_the_turns(page: Page, turns: list[dict[str, Any]]) -> None:
    cards = await page.locator(".turn").all()
    assert len(cards) == len(turns)
    for card, turn in zip(cards, turns, strict=True):
        text = await card.inner_text()
        assert turn["heard_text"] in text
        assert turn["user_text"] in text
        assert turn["outcome"] in text
        bars = [box for bar in await card.locator(".bar").all() if (box := await bar.bounding_box()) is not None]
        assert len(bars) == (len(turn["stages"]) if turn["e2e_latency"] is not None else 0)
        assert [bar["x"] for bar in bars] == sorted(bar["x"] for bar in bars)
        for tool in turn["tools"]:
            assert tool["output"] in text


async def test_the_timeline_draws_both_voices_the_waits_the_tools_and_the_cut_and_leads_to_the_turns(
    on_embedded: Ran,
) -> None:
    turns = on_embedded.report["turns"]
    async with shown(on_embedded.folder / "call.html") as page:
        drawing = page.locator("#timeline-drawing")
        assert await drawing.locator("polygon.wave.user").count() == 1
        assert await drawing.locator("polygon.wave.agent").count() == 1
        assert await drawing.locator(".state.user.speaking").count() >= 1
        assert await drawing.locator(".gap").count() == sum(turn["e2e_latency"] is not None for turn in turns)
        assert await drawing.locator(".tool").count() == sum(len(turn["tools"]) for turn in turns)
        cuts = sum(each["decision"] == "interrupted" for turn in turns for each in turn["interruptions"])
        assert await drawing.locator(".interruption.cut").count() == cuts
        assert await drawing.locator(".lost").count() <= sum(turn["interrupted"] for turn in turns)
        words = await drawing.locator(".words").evaluate_all("all => all.map(e => e.textContent)")
        assert {turn["user_text"] for turn in turns if turn["user_text"]} <= set(words)
        await drawing.locator("a").first.click()
        assert await page.locator(".turn:target").count() == 1


async def test_a_click_on_the_timeline_plays_the_call_from_there(with_sound: Path) -> None:
    async with shown(with_sound) as page:
        await until(page, "document.getElementById('audio').readyState >= 1")
        seconds = await page.evaluate("document.getElementById('audio').duration")
        assert seconds > 20
        await page.locator("#timeline-drawing").click(position={"x": 340, "y": 20})  # ten seconds in
        await until(page, "document.getElementById('audio').currentTime > 9")
        await until(page, "document.getElementById('playhead').getAttribute('visibility') === 'visible'")
        assert await page.evaluate("document.getElementById('audio').currentTime") < seconds
