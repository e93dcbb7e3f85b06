# SPDX-License-Identifier: MIT
"""Mark what `--setup` writes, so that it finds its own lines and files later.

A line that it adds to a file ends with MARK. A file that it writes begins with a digest, which shows a change by hand.
Rules for this file: texts in, texts out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import sha256

MARK = "# configtron learn serve --setup"
# A marked line. A space before its newline: the newline is ours, and the site's own text follows.
_MARKED = re.compile(rf"\n[^\n]*{re.escape(MARK)}( \n)?")
_HEAD = re.compile(rf"{re.escape(MARK)} wrote this file: ([0-9a-f]{{16}})\n")
# Words of an nginx configuration: comment, quoted word, punctuation, plain word.
_NGINX = re.compile(r"""#[^\n]*|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|[{};]|(?:\\.|\$\{[^}]*\}|[^\s{};\\])+""", re.S)
_BIND = re.compile(r"bind\s+\S*:(\d+)\b")


def signed(text: str) -> str:
    """Return the text of a file, with its digest in a first line."""
    return f"{MARK} wrote this file: {sha256(text.encode()).hexdigest()[:16]}\n{text}"


def is_unchanged(text: str) -> bool:
    """Return whether a file is as `signed` returned it: no human changed it."""
    found = _HEAD.match(text)
    return found is not None and signed(text[found.end() :]) == text


def without_marked(text: str) -> str:
    """Return a text without the marked lines."""
    return _MARKED.sub("", text)


def marked(lines: Sequence[str], before: str = "    ") -> str:
    """Return marked lines, to insert at the end of another line. before: their indentation."""
    return "".join(f"\n{before}{line} {MARK}" for line in lines)


@dataclass
class NginxServer:
    """A block `server`. at: offset of its contents; directives: the words of each, those of inner blocks left out."""

    at: int
    directives: list[list[str]] = field(default_factory=list)

    def listens(self, ports: Sequence[int]) -> bool:
        """Return whether it listens on one of these TCP ports; 80 unless it states one."""
        stated = [words[1] for words in self.directives if words[0] == "listen" and len(words) > 1]
        found = {int(at[1]) if (at := re.search(r"(?:^|:)(\d+)$", one)) else 80 for one in stated if "unix:" not in one}
        return not found.isdisjoint(ports) if stated else 80 in ports


def nginx_servers(text: str) -> Iterator[NginxServer]:
    """Yield the blocks `server` of nginx.conf, or of a file that its block `http` includes."""
    open_blocks: list[NginxServer | str] = []
    words: list[str] = []
    for found in _NGINX.finditer(text):
        word = found[0]
        if word.startswith("#"):
            continue
        if word == "{":
            is_server = words == ["server"] and open_blocks in ([], ["http"])
            open_blocks.append(NginxServer(found.end()) if is_server else " ".join(words))
        elif word == "}" and open_blocks and isinstance(ended := open_blocks.pop(), NginxServer):
            yield ended
        elif word == ";" and open_blocks and isinstance(server := open_blocks[-1], NginxServer) and words:
            server.directives.append(words)
        words = [] if word in "{};" else [*words, word]


def add_to_nginx(text: str, ports: Sequence[int], location: str, log: str, header: str) -> str:
    """Return a file with lines in each `server` of these ports: it includes `location`. If it has an `access_log` or
    `add_header` of its own, which replace those of `http`, it also gets `log` or `header`."""
    text = without_marked(text)
    for server in sorted(nginx_servers(text), key=lambda one: -one.at):
        if server.listens(ports):
            names = {words[0] for words in server.directives}
            own = [line for name, line in (("access_log", log), ("add_header", header)) if name in names]
            rest = text[server.at :]
            end = "" if rest.startswith("\n") else " \n"
            text = f"{text[: server.at]}{marked([f'include {location};', *own])}{end}{rest}"
    return text


def add_to_haproxy(text: str, ports: Sequence[int], first: Sequence[str], last: Sequence[str],
                         backend: Sequence[str]) -> str:  # fmt: skip
    """Return haproxy.cfg with lines at the beginning and at the end of each section that binds one of these ports, and
    with the backend at the end of the file."""
    lines = without_marked(text).splitlines()
    heads = [at for at, line in enumerate(lines) if line[:1] not in ("", " ", "\t", "#")]
    changed = False
    for begin, end in zip(heads, [*heads[1:], len(lines)], strict=True):
        body = [line.strip() for line in lines[begin:end]]
        bound = {int(found[1]) for line in body if (found := _BIND.match(line))}
        if body[0].split()[0] in ("frontend", "listen") and not bound.isdisjoint(ports):
            final = max(at for at in range(begin, end) if lines[at].strip() and not lines[at].startswith("#"))
            lines[final] += marked(last)
            lines[begin] += marked(first)
            changed = True
    if changed:
        lines[-1] += marked(backend, "")
    return "\n".join(lines) + "\n"
