# SPDX-License-Identifier: MIT
"""Lines that `--setup` adds to a web server's configuration, and files that it wrote: both are known again.

A line that was added ends with MARK, and is taken out by that. A file that was written begins with its own digest, so
that a change by hand shows. Rules for this file: texts in, texts out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import sha256

MARK = "# configtron learn serve --setup"
_ADDED = re.compile(rf"\n[^\n]*{re.escape(MARK)}( \n)?")
_HEAD = re.compile(rf"{re.escape(MARK)} wrote this file: ([0-9a-f]{{16}})\n")
# Words of an nginx configuration: comment, quoted word, punctuation, plain word.
_NGINX = re.compile(r"""#[^\n]*|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|[{};]|(?:\\.|\$\{[^}]*\}|[^\s{};\\])+""", re.S)
_BIND = re.compile(r"bind\s+\S*:(\d+)\b")
_SECTION = re.compile(r"\S")


def signed(text: str) -> str:
    """Return a text with the line that its digest is in."""
    return f"{MARK} wrote this file: {sha256(text.encode()).hexdigest()[:16]}\n{text}"


def is_as_written(text: str) -> bool:
    """Return whether a file is one of `signed`, and no human changed it."""
    found = _HEAD.match(text)
    return found is not None and signed(text[found.end() :]) == text


def without_added(text: str) -> str:
    """Return a text without the lines that were added to it."""
    return _ADDED.sub("", text)


def added(lines: Sequence[str], before: str = "    ") -> str:
    """Return lines as they are inserted at the end of another one."""
    return "".join(f"\n{before}{line} {MARK}" for line in lines)


@dataclass
class NginxServer:
    """A block `server`: where its contents begin, and its own directives."""

    at: int
    directives: list[list[str]] = field(default_factory=list)

    def listens(self, ports: Sequence[int]) -> bool:
        """Return whether it listens on one of these TCP ports; 80 unless it states one."""
        stated = [words[1] for words in self.directives if words[0] == "listen" and len(words) > 1]
        found = {int(at[1]) if (at := re.search(r"(?:^|:)(\d+)$", one)) else 80 for one in stated if "unix:" not in one}
        return not found.isdisjoint(ports) if stated else 80 in ports

    def has(self, name: str) -> bool:
        """Return whether it has a directive of its own."""
        return any(words[0] == name for words in self.directives)


def nginx_servers(text: str) -> Iterator[NginxServer]:
    """Yield the blocks `server` of a file that is nginx.conf, or that its block `http` includes."""
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


def in_nginx_servers(text: str, ports: Sequence[int], location: str, log: str, header: str) -> str:
    """Return a file in which each server of these ports includes `location`, and has the log and the header where a
    directive of its own replaces those of `http`."""
    text = without_added(text)
    for server in sorted(nginx_servers(text), key=lambda one: -one.at):
        if server.listens(ports):
            own = [line for name, line in (("access_log", log), ("add_header", header)) if server.has(name)]
            rest = text[server.at :]
            # What stands behind the brace goes on in a line of its own.
            end = "" if rest.startswith("\n") else " \n"
            text = f"{text[: server.at]}{added([f'include {location};', *own])}{end}{rest}"
    return text


def in_haproxy_frontends(text: str, ports: Sequence[int], first: Sequence[str], last: Sequence[str],
                         backend: Sequence[str]) -> str:  # fmt: skip
    """Return haproxy.cfg in which each section that binds one of these ports begins and ends with these lines, and with
    the backend at its end."""
    lines = without_added(text).splitlines()
    heads = [at for at, line in enumerate(lines) if _SECTION.match(line) and not line.startswith("#")]
    changed = False
    for begin, end in zip(heads, [*heads[1:], len(lines)], strict=True):
        body = [line.strip() for line in lines[begin:end]]
        bound = {int(found[1]) for line in body if (found := _BIND.match(line))}
        if body[0].split()[0] in ("frontend", "listen") and not bound.isdisjoint(ports):
            final = max(at for at in range(begin, end) if lines[at].strip() and not lines[at].startswith("#"))
            lines[final] += added(last)
            lines[begin] += added(first)
            changed = True
    if changed:
        lines[-1] += added(backend, "")
    return "\n".join(lines) + "\n"
