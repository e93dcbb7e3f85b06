"""Page loads by the compiled client (load.c): built once, one process per namespace, one line of JSON per load."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from configtron.lab.bed.pages import Page


@dataclass(frozen=True, slots=True)
class Load:
    """One page load. Times in ms of the guest's clock, from the moment the document was wanted.

    plt_ms       last byte of the last object, the page's idle gaps not counted
    elapsed_ms   the same, gaps counted
    ttfb_ms      first byte of the document's answer
    index_ms     when an average part of the first screen was shown (SpeedIndex-like; load.c)
    times        per object: asked, first byte, last byte
    failed       "", or a named reason (timeout, refused, closed, ...): then the times above mean nothing
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

    @staticmethod
    def from_json(text: str) -> Load:
        """The client's line."""
        raise NotImplementedError


class Client:
    """The running client: TLS set up once, no fork per load. Each load has new connections."""

    def __init__(self, pages: Iterable[Page], *, netns: str = "client", program: str = ""):
        """Pages it may be asked for; `program` is `program()`'s path, built outside the guest."""
        raise NotImplementedError

    def load(self, page: str, *, http: str = "h2", seed: int = 0, limit_s: float = 120.0) -> Load:
        """One load; begins on a whole second of the guest's clock, `seed` shifts that by less than a kernel tick.

        http is "h2" or "http/1.1".
        """
        raise NotImplementedError

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *error: object) -> None:
        raise NotImplementedError


def program() -> str:
    """The client's path in the cache; compiled when it is not there. Call it on the host: a guest cannot write."""
    raise NotImplementedError
