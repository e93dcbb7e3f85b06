# SPDX-License-Identifier: MIT
"""Page loads by the compiled client (load/): built once, one process per namespace, one line of JSON per load."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from configtron.lab.testbed import plan
from configtron.lab.testbed.pages import PageModel
from configtron.lab.uml.kernel import build_lock, cache_folder, is_whole, keep, key, require, run
from configtron.linux.netns import enter
from configtron.model.errors import BadInput, Missing

SOURCES = Path(__file__).with_name("load")
VERSIONS = ("h2", "http/1.1")
# The visit before a load (load.c): none; the same page, whose TLS sessions, or connections, the client keeps.
FIRST, RESUMED, WARM = "first", "resumed", "warm"
# header -> Debian package
HEADERS = {
    Path("/usr/include/nghttp2/nghttp2.h"): "libnghttp2-dev",
    Path("/usr/include/openssl/ssl.h"): "libssl-dev",
    Path("/usr/include/stdio.h"): "libc6-dev",
}


@dataclass(frozen=True, slots=True)
class Load:
    """One page load. Times in ms of the guest's clock, from the request for the document.

    plt_ms       last byte of the last object, the page's idle gaps not counted
    elapsed_ms   the same, gaps counted
    connect_ms   first TCP connection there
    ttfb_ms      first byte of the document's answer
    index_ms     mean time at which the parts of the first screen were shown (browse.c, `shown_ms`)
    bytes        of all bodies
    connections  opened
    resumed      TLS handshakes that resumed an earlier session
    times        per object: asked, first byte, last byte; 0 is never
    token        of the document's Server-Timing header (docs/learn.md); "": it has none
    ports        of the client's ends, in order of opening, where a source address was given
    failed       "", or a named reason (load.c): then the times mean nothing
    """

    page: str
    http: str
    seed: int
    failed: str
    plt_ms: float
    elapsed_ms: float
    connect_ms: float
    ttfb_ms: float
    index_ms: float
    bytes: int
    connections: int
    times: tuple[tuple[float, float, float], ...]
    resumed: int = 0
    token: str = ""
    ports: tuple[int, ...] = ()

    @staticmethod
    def from_json(text: str) -> Load:
        """Return the load of a client's line. Errors: `BadInput`."""
        try:
            row = json.loads(text)
            return Load(**row | {"times": tuple(map(tuple, row["times"])), "ports": tuple(row.get("ports", ()))})
        except (ValueError, TypeError, KeyError) as error:
            raise BadInput(f"not a load: {error}") from error


class PageClient:
    """The running client: TLS set up once, no fork per load. Each load but a warm one has new connections."""

    def __init__(
        self, pages: Iterable[PageModel], addresses: Mapping[str, str], program: str, *, netns: str = "client"
    ):
        """The pages it may be asked for, and where their origins are; `program` is `program()`'s path."""
        path = Path(tempfile.mkdtemp(prefix="load-")) / "plan"
        path.write_text(plan.text(pages, addresses))
        self._process = subprocess.Popen(
            [program, str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            preexec_fn=(lambda: enter(netns)) if netns else None,
        )

    def load(self, page: str, *, http: str = "h2", seed: int = 0, limit_s: float = 120.0, visit: str = FIRST) -> Load:
        """One load; begins on a whole second of the guest's clock, `seed` shifts that by less than a kernel tick.

        visit   as load.c has it: FIRST, RESUMED, or warm:SECONDS.
        Errors: BadInput for an unknown version; Missing when the client ended.
        """
        if http not in VERSIONS:
            raise BadInput(f"no HTTP version {http!r}; choose from {', '.join(VERSIONS)}")
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write(f"{page} {http} {seed} {limit_s} {visit}\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise Missing(f"the page-load client ended with code {self._process.wait()} over {page!r}")
        return Load.from_json(line)

    def __enter__(self) -> PageClient:
        return self

    def __exit__(self, *error: object) -> None:
        self._process.kill()
        self._process.communicate()


def folder(*defined: str) -> Path:
    """Return the cache folder of the client of these sources, built or not."""
    return cache_folder() / f"load-{key(*(path.read_bytes() for path in sources()), *map(str.encode, defined))}"


def sources() -> list[Path]:
    return sorted(SOURCES.glob("*.[ch]"))


def program(*defined: str) -> str:
    """Return the client's path in the cache; compile it if absent. Call it on the host: a guest has another cache.

    defined   names for the compiler: EACH_PACKET (stream.c) to wake for each packet, as a comparison
    """
    place = folder(*defined)
    if is_whole(place):
        return str(place / "load")
    require([package for header, package in HEADERS.items() if not header.exists()], "building the page-load client")
    with build_lock(lambda line: None):
        if not is_whole(place):
            work, log = cache_folder() / "load-building", cache_folder() / "load-build.log"
            shutil.rmtree(work, ignore_errors=True)
            work.mkdir(parents=True)
            names = [str(path) for path in sources() if path.suffix == ".c"]
            flags = ["-O2", "-Wall", *(f"-D{name}" for name in defined)]
            run(["gcc", *flags, "-o", str(work / "load"), *names, "-lssl", "-lcrypto", "-lnghttp2"], log)
            keep(work, place)
    return str(place / "load")
