# SPDX-License-Identifier: MIT
"""A page in headless Chromium, over DevTools' pipe: how wide it is laid out, and what an expression makes of it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from fcntl import F_DUPFD, fcntl
from pathlib import Path
from typing import Any

import pytest

# Pixels: the smallest and the largest letters of a drawing that read as the page's own.
SMALLEST_PX, LARGEST_PX = 11.0, 16.0
# The page's width; sizes of the drawings' letters on the screen; tables and drawings that end beyond the screen without
# a frame to scroll in; cells so narrow that their words make a column of hundreds of pixels.
LOOK = """(() => {
  const size = t => { const m = t.getScreenCTM();
    return parseFloat(getComputedStyle(t).fontSize) * Math.hypot(m.a, m.b) };
  const cut = e => { for (let p = e.parentElement; p; p = p.parentElement)
    if (getComputedStyle(p).overflowX === "auto") return false; return e.getBoundingClientRect().right > screen.width };
  const tall = c => c.getClientRects().length && c.offsetWidth < 90 && c.offsetHeight > 300;
  return { width: document.documentElement.scrollWidth,
    sizes: [...document.querySelectorAll("svg text")].map(size),
    cut: [...document.querySelectorAll("table, svg")].filter(cut).length,
    tall: [...document.querySelectorAll("td, th")].filter(tall).length }
})()"""
NAMES = ("chromium-headless-shell", "chromium", "chromium-browser")


class HeadlessPage:
    """One page at one width."""

    def __init__(self, page: Path | str, width: int, folder: Path | None = None, agent: str = "") -> None:
        """page: a file, or an address, which needs a folder for Chromium's own files; agent: the User-Agent."""
        url = page if isinstance(page, str) else page.as_uri()
        folder = folder or Path(page).parent
        program = next((found for name in NAMES if (found := shutil.which(name))), None)
        if program is None:
            pytest.skip("no Chromium; apt-get install chromium-headless-shell")
        to_child, self._to = os.pipe()
        self._from, from_child = os.pipe()
        words = [
            program, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
            "--remote-debugging-pipe", f"--window-size={width},900", f"--user-data-dir={folder / 'chromium'}",
            *([f"--user-agent={agent}"] if agent else []),
        ]  # fmt: skip

        def descriptors() -> None:
            # Chromium reads commands from 3 and writes events to 4. Free numbers above both: no copy closes the other.
            read, write = (fcntl(one, F_DUPFD, 20) for one in (to_child, from_child))
            os.dup2(read, 3)
            os.dup2(write, 4)

        self._process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                         preexec_fn=descriptors, close_fds=False)  # fmt: skip
        os.close(to_child)
        os.close(from_child)
        self._number, self._buffer, self.requested = 0, b"", [""]
        self.events: list[dict[str, Any]] = []
        target = self._call("Target.createTarget", {"url": "about:blank", "width": width, "height": 900})["targetId"]
        self._session = self._call("Target.attachToTarget", {"targetId": target, "flatten": True})["sessionId"]
        self._call("Emulation.setDeviceMetricsOverride",
                   {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": True})  # fmt: skip
        self._call("Network.enable", {})
        self._call("Page.enable", {})
        self.requested = []
        self.visit(url)

    def __enter__(self) -> HeadlessPage:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._to)
        os.close(self._from)

    def visit(self, url: str) -> None:
        """Load a page."""
        self._call("Page.navigate", {"url": url}, until="Page.loadEventFired")

    def value(self, expression: str) -> Any:
        """Return what an expression of JavaScript makes of the page."""
        return self._call("Runtime.evaluate", {"expression": expression, "returnByValue": True})["result"].get("value")

    def _call(self, method: str, params: dict[str, Any], until: str = "") -> dict[str, Any]:
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": params}
        if session := getattr(self, "_session", ""):
            message["sessionId"] = session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        answer: dict[str, Any] | None = None
        fired = not until
        while answer is None or not fired:
            event = self._next()
            if event.get("id") == self._number:
                assert "error" not in event, event
                answer = event["result"]
            fired = fired or event.get("method") == until
            self.events.append(event)
            if event.get("method") == "Network.requestWillBeSent":
                self.requested.append(event["params"]["request"]["url"])
        return answer

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            part = os.read(self._from, 65536)
            assert part, "Chromium has ended"
            self._buffer += part
        text, _, self._buffer = self._buffer.partition(b"\0")
        found: dict[str, Any] = json.loads(text)
        return found


def looked_at(page: HeadlessPage, width: int) -> list[str]:
    """Return what is wrong with a page on a screen of so many pixels."""
    found = page.value(LOOK)
    wrong = [f"the page is {found['width']} pixels wide"] if found["width"] > width else []
    wrong += [f"letters of {size:.1f} pixels" for size in found["sizes"] if not SMALLEST_PX <= size <= LARGEST_PX]
    return wrong + [f"{found[fault]} are {fault}" for fault in ("cut", "tall") if found[fault]]
