"""Real web servers for the testbed's pages: nginx and Apache over TLS, HTTP/1.1 and HTTP/2 by ALPN, on port 443."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from configtron.lab.bed.pages import Page

PROGRAMS = ("nginx", "apache")


@contextmanager
def start(pages: Iterable[Page], *, program: str = "nginx", netns: str = "server") -> Iterator[None]:
    """Serve all these pages, on every address of that namespace, until the block ends; the names choose the content.

    Errors: Missing, when the program is not installed or does not listen.
    """
    raise NotImplementedError
    yield
