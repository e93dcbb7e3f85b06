# SPDX-License-Identifier: MIT
"""Page loads by a real browser, headless Chromium, on the same servers, network and clock: the yardstick of load/.

Question   Does our client order configurations as a browser would?
Method     One browser for each version of HTTP, driven over a pipe (DevTools), in the client's namespace. A new browser
           context for each load: no connection, no cache is kept. It begins, as our client's loads do, on a whole
           second of the clock. Complete is when all of the page's objects have come, whatever the browser calls it.
Reads as   The network stack's own moments for each request, as DevTools reports them.
Fails as   "failed" of the visit: timeout, or the browser's own name of a network error; Missing when there is none.
Differs    from a visitor's browser: no sandbox, no check of certificates, no isolation of sites, names by a rule.
           In virtual time its own work takes none.
Source     https://chromedevtools.github.io/devtools-protocol/ (Target, Page, Network)
"""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import tempfile
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from configtron.lab.testbed.bodies import url
from configtron.lab.testbed.loads import VERSIONS
from configtron.lab.testbed.pages import PageModel
from configtron.linux.netns import inside
from configtron.model.errors import BadInput, Missing

# The smaller program first; both are Debian packages of these names.
PROGRAMS = ("chromium-headless-shell", "chromium")
FLAGS = (
    "--headless", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
    "--ignore-certificate-errors", "--disable-background-networking", "--disable-component-update", "--no-first-run",
    "--disable-extensions", "--disable-sync", "--no-proxy-server", "--mute-audio", "--disable-breakpad",
    "--disable-site-isolation-trials", "--disable-features=IsolateOrigins,site-per-process,OptimizationHints",
)  # fmt: skip
# It is up within seconds; one that has not answered by then never will.
START_PATIENCE_S = 120.0
# As load.c: what the load before still sends is gone.
SETTLE_S = 0.2
# Descriptors of Chromium's side of the pipe, by its convention.
COMMANDS, EVENTS = 3, 4


@dataclass(frozen=True, slots=True)
class Visit:
    """A page load by the browser; times in ms from the document's request, as in loads.Load.

    load_ms   the browser's own load event; 0 when it came before the last object or not at all
    times     per object: asked, first byte, last byte
    """

    page: str
    http: str
    seed: int
    failed: str
    plt_ms: float
    ttfb_ms: float
    load_ms: float
    times: tuple[tuple[float, float, float], ...]


def program() -> str:
    """Return the browser's path. Errors: Missing, with the package."""
    for name in PROGRAMS:
        if path := shutil.which(name):
            return path
    raise Missing(f"no browser; run: apt-get install {PROGRAMS[0]}")


class Browser:
    """A running browser that speaks one version of HTTP."""

    def __init__(self, pages: Iterable[PageModel], addresses: Mapping[str, str], *, http: str, netns: str = "client"):
        """The pages it may be asked for, and where their origins are; the servers have both versions."""
        if http not in VERSIONS:
            raise BadInput(f"no HTTP version {http!r}; choose from {', '.join(VERSIONS)}")
        self._pages = {page.name: page for page in pages}
        self._http = http
        self._folder = Path(tempfile.mkdtemp(prefix="browser-"))
        rules = ",".join(f"MAP {name} {address}" for name, address in addresses.items())
        words = [program(), *FLAGS, f"--host-resolver-rules={rules}", f"--user-data-dir={self._folder}"]
        words += ["--disable-http2"] if http == "http/1.1" else []
        self._begin(words, netns)
        self._held = b""
        self._number = 0
        self._events: list[dict[str, Any]] = []
        self._call("Browser.getVersion", limit_s=START_PATIENCE_S)

    def _begin(self, words: list[str], netns: str) -> None:
        commands, self._to = os.pipe()
        self._from, events = os.pipe()
        log = str(self._folder / "log")
        actions = [
            (os.POSIX_SPAWN_OPEN, 1, log, os.O_WRONLY | os.O_CREAT, 0o600),
            (os.POSIX_SPAWN_DUP2, 1, 2),
            # aside first: one of the two may have the other's number
            (os.POSIX_SPAWN_DUP2, commands, 100),
            (os.POSIX_SPAWN_DUP2, events, 101),
            (os.POSIX_SPAWN_DUP2, 100, COMMANDS),
            (os.POSIX_SPAWN_DUP2, 101, EVENTS),
        ]
        environment = dict(os.environ) | {"HOME": str(self._folder)}
        with inside(netns):
            self._pid = os.posix_spawn(words[0], words, environment, file_actions=actions, setsid=True)
        os.close(commands)
        os.close(events)

    def load(self, page: str, *, seed: int = 0, limit_s: float = 120.0) -> Visit:
        """One load in a new context; begins on a whole second of the guest's clock."""
        context = self._call("Target.createBrowserContext")["browserContextId"]
        place = {"url": "about:blank", "browserContextId": context}
        target = self._call("Target.createTarget", place)["targetId"]
        session = self._call("Target.attachToTarget", {"targetId": target, "flatten": True})["sessionId"]
        for domain in ("Page", "Network"):
            self._call(f"{domain}.enable", session=session)
        self._events.clear()
        visit = self._visit(self._pages[page], session, seed, limit_s)
        self._call("Target.closeTarget", {"targetId": target})
        self._call("Target.disposeBrowserContext", {"browserContextId": context})
        time.sleep(SETTLE_S)
        return visit

    def _visit(self, page: PageModel, session: str, seed: int, limit_s: float) -> Visit:
        wait_for_second()
        deadline = time.monotonic() + limit_s
        self._send("Page.navigate", {"url": url(page, 0)}, session)
        watched = EventLog(page)
        while not watched.complete and not watched.failed:
            event = self._next(deadline)
            if event is None:
                watched.failed = f"timeout, without {watched.missing}"
            elif event.get("sessionId") == session and "method" in event:
                watched.see(event["method"], event["params"])
        return watched.visit(self._http, seed)

    def _call(
        self, method: str, params: Mapping[str, Any] | None = None, session: str = "", limit_s: float = 60.0
    ) -> Any:
        number, deadline = self._send(method, params or {}, session), time.monotonic() + limit_s
        while answer := self._next(deadline):
            if answer.get("id") == number:
                if "error" in answer:
                    raise Missing(f"the browser refuses {method}: {answer['error'].get('message')}")
                return answer["result"]
            self._events.append(answer)
        raise Missing(f"the browser does not answer {method}; its log:\n{self._log()}")

    def _send(self, method: str, params: Mapping[str, Any], session: str) -> int:
        self._number += 1
        words = {"id": self._number, "method": method, "params": params} | ({"sessionId": session} if session else {})
        os.write(self._to, json.dumps(words).encode() + b"\0")
        return self._number

    def _next(self, deadline: float) -> dict[str, Any] | None:
        """Return the next message; None when none came in time."""
        while b"\0" not in self._held:
            if not select.select([self._from], [], [], max(0.0, deadline - time.monotonic()))[0]:
                return None
            got = os.read(self._from, 1 << 16)
            if not got:
                raise Missing(f"the browser ended; its log:\n{self._log()}")
            self._held += got
        message, self._held = self._held.split(b"\0", 1)
        found: dict[str, Any] = json.loads(message)
        return found

    def _log(self) -> str:
        return (self._folder / "log").read_text(errors="replace")[-2000:]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        os.killpg(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)
        os.close(self._to)
        os.close(self._from)
        shutil.rmtree(self._folder, ignore_errors=True)


class EventLog:
    """A load's events, each passed to `see`; then `visit` is the load."""

    def __init__(self, page: PageModel):
        self._page = page
        self._index = {url(page, i): i for i in range(len(page.objects))}
        self._requests: dict[str, int] = {}
        self._asked: dict[int, float] = {}
        self._first: dict[int, float] = {}
        self._last: dict[int, float] = {}
        self._load = 0.0
        self.failed = ""

    @property
    def complete(self) -> bool:
        return len(self._last) == len(self._page.objects)

    @property
    def missing(self) -> str:
        """Paths of what has not come."""
        return " ".join(thing.path for i, thing in enumerate(self._page.objects) if i not in self._last)

    def see(self, method: str, params: Mapping[str, Any]) -> None:
        """One event of the domains Page and Network; timestamps are seconds of one clock."""
        if method == "Network.requestWillBeSent":
            number = self._index.get(params["request"]["url"])
            if number is not None:
                self._requests[params["requestId"]] = number
                self._asked.setdefault(number, params["timestamp"])
        elif method == "Page.loadEventFired":
            self._load = params["timestamp"]
        elif (number := self._requests.get(params.get("requestId", ""))) is not None:
            self._see_answer(method, params, number)

    def _see_answer(self, method: str, params: Mapping[str, Any], number: int) -> None:
        if method == "Network.responseReceived":
            response = params["response"]
            if response["status"] != 200:
                self.failed = f"status {response['status']}"
            timing = response.get("timing") or {}
            self._first[number] = timing["requestTime"] + timing["receiveHeadersStart"] / 1e3 if timing else 0.0
        elif method == "Network.loadingFinished":
            self._last[number] = params["timestamp"]
        elif method == "Network.loadingFailed":
            self.failed = str(params["errorText"])

    def visit(self, http: str, seed: int) -> Visit:
        """Return the load that the events describe."""
        begun = self._asked.get(0, 0.0)

        def ms(moments: Mapping[int, float], number: int) -> float:
            return round((moments[number] - begun) * 1e3, 3) if moments.get(number) else 0.0

        times = tuple((ms(self._asked, i), ms(self._first, i), ms(self._last, i)) for i in range(len(self._index)))
        plt_ms = 0.0 if self.failed else max(done for _, _, done in times) - sum(self._page.gaps_ms)
        load_ms = round((self._load - begun) * 1e3, 3) if self._load else 0.0
        return Visit(self._page.name, http, seed, self.failed, plt_ms, times[0][1], load_ms, times)


def wait_for_second() -> None:
    """Sleep until the clock shows a whole second, as load.c does."""
    now = time.monotonic()
    time.sleep(int(now) + 1 - now)
