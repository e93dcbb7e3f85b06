# SPDX-License-Identifier: MIT
"""Mark what `--setup` writes, so that it finds its own lines and files later.

A line that it adds to a file ends with MARK. A file that it writes begins with a digest, which shows a change by hand.
Rules for this file: texts in, texts out.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType

MARK = "# configtron learn serve --setup"
# A marked line. A space before its newline: the newline is ours, and the site's own text follows.
_MARKED = re.compile(rf"\n[^\n]*{re.escape(MARK)}( \n)?")
_HEAD = re.compile(rf"{re.escape(MARK)} wrote this file: ([0-9a-f]{{16}})\n")
# Words of an nginx configuration: comment, quoted word, punctuation, plain word.
_NGINX = re.compile(r"""#[^\n]*|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|[{};]|(?:\\.|\$\{[^}]*\}|[^\s{};\\])+""", re.S)
_NGINX_FOLDER, _NO_FILES = Path("/etc/nginx"), MappingProxyType[str, str]({})
# The ports of `bind :80,:8080`; of a range, the first.
_PORTS = re.compile(r":(\d+)(?=[,-]|$)")
# HAProxy configuration manual: words that begin a section. Lines need no indentation.
_SECTIONS = frozenset("global defaults frontend backend listen peers resolvers userlist mailers program ring cache"
                      " http-errors fcgi-app log-forward log-profile crt-store traces".split())  # fmt: skip


def signed(text: str) -> str:
    """Return the text of a file, with its digest in a first line."""
    return f"{MARK} wrote this file: {sha256(text.encode(errors='surrogateescape')).hexdigest()[:16]}\n{text}"


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
class NginxBlock:
    """A block in braces. words: those before the brace; at: offset of its contents; around: the blocks that it is in;
    directives: the words of each, those of inner blocks left out."""

    words: list[str]
    at: int
    around: list[NginxBlock]
    directives: list[list[str]] = field(default_factory=list)

    def is_site(self, ports: Sequence[int]) -> bool:
        """Return whether it is a `server` of `http` on one of these ports; one of `stream` has a proxy_pass itself."""
        is_server = self.words == ["server"] and [one.words for one in self.around] in ([], [["http"]])
        return is_server and not self.has("proxy_pass") and self.listens(ports)

    def listens(self, ports: Sequence[int]) -> bool:
        """Return whether it listens on one of these TCP ports; 80 unless it states one."""
        stated = [words[1] for words in self.directives if words[0] == "listen" and len(words) > 1]
        found = {int(at[1]) if (at := re.search(r"(?:^|:)(\d+)$", one)) else 80 for one in stated if "unix:" not in one}
        return not found.isdisjoint(ports) if stated else 80 in ports

    def has(self, name: str) -> bool:
        """Return whether it has a directive of its own; `access_log off` is none that another could stand beside."""
        return any(words[0] == name and words[1:] != ["off"] for words in self.directives)

    def is_silent(self) -> bool:
        """Return whether it switches every log off."""
        return ["access_log", "off"] in self.directives


def nginx_blocks(text: str, included: Mapping[str, str] = _NO_FILES) -> Iterator[NginxBlock]:
    """Yield the blocks of a file, inner ones first, with the directives that they include; the last is the file itself.
    included: texts of files by path."""
    around: list[NginxBlock] = []
    whole = NginxBlock([], 0, [])
    words: list[str] = []
    for found in _NGINX.finditer(text):
        word = found[0]
        if word.startswith("#"):
            continue
        if word == "{":
            around.append(NginxBlock(words, found.end(), [*around]))
        elif word == "}" and around:
            yield around.pop()
        elif word == ";" and words:
            (around[-1] if around else whole).directives += [words, *_included(words, included)]
        words = [] if word in "{};" else [*words, word]
    yield whole


def _included(words: Sequence[str], texts: Mapping[str, str]) -> Iterator[list[str]]:
    """Yield the directives outside of blocks of the files that a directive includes."""
    if words[0] == "include":
        pattern = str(_NGINX_FOLDER / " ".join(words[1:]).strip("\"'"))
        for path in fnmatch.filter(texts, pattern):
            rest = {other: text for other, text in texts.items() if other != path}
            yield from list(nginx_blocks(texts[path], rest))[-1].directives


def add_to_nginx(text: str, ports: Sequence[int], location: str, log: str, header: str,
                 included: Mapping[str, str] = _NO_FILES) -> str:  # fmt: skip
    """Return a file with lines in each site of these ports: it includes `location`. If it or a block in it has an
    `access_log` or `add_header` of its own, which replace those around it, that one also gets `log` or `header`."""
    text = without_marked(text)
    for block in sorted(nginx_blocks(text, included), key=lambda one: -one.at):
        if any(one.is_site(ports) for one in (block, *block.around)):
            own = [line for name, line in (("access_log", log), ("add_header", header)) if block.has(name)]
            lines = [f"include {location};", *own] if block.words == ["server"] else own
            rest = text[block.at :]
            end = "" if rest.startswith("\n") or not lines else " \n"
            text = f"{text[: block.at]}{marked(lines)}{end}{rest}"
    return text


def is_silent(text: str, ports: Sequence[int], included: Mapping[str, str] = _NO_FILES) -> bool:
    """Return whether `http` or a site of these ports switches every log off: no line comes from there."""
    return any(
        one.is_silent() and (one.words == ["http"] or one.is_site(ports)) for one in nginx_blocks(text, included)
    )


def add_to_haproxy(text: str, ports: Sequence[int], first: Sequence[str], last: Sequence[str],
                   backend: Sequence[str]) -> str:  # fmt: skip
    """Return haproxy.cfg with lines at the beginning and at the end of each HTTP section that binds one of these
    ports, and with the backend at the end of the file."""
    lines = without_marked(text).removesuffix("\n").split("\n")
    words = [line.split() or [""] for line in lines]
    heads = [at for at, found in enumerate(words) if found[0] in _SECTIONS]
    # The mode by name of the section `defaults`; where none is named, the last one counts.
    added, modes = list[str](), dict[str, str]()
    for begin, end in zip(heads, [*heads[1:], len(lines)], strict=True):
        kind, body = words[begin][0], [found for found in words[begin + 1 : end] if len(found) > 1]
        base = dict(pairwise(words[begin])).get("from", kind)
        mode = next((found[1] for found in body if found[0] == "mode"), modes.get(base, "tcp"))
        if kind == "defaults":
            modes |= dict.fromkeys(("frontend", "listen", *words[begin][1:2]), mode)
        bound = {int(port) for found in body if found[0] == "bind" for port in _PORTS.findall(found[1])}
        if kind in ("frontend", "listen") and mode == "http" and not bound.isdisjoint(ports):
            final = max(at for at in range(begin, end) if lines[at].strip() and not lines[at].startswith("#"))
            lines[final] += marked(last)
            lines[begin] += marked(first)
            added = [backend[0] + f" from {base}" * (base != kind), *backend[1:]]
    return "\n".join(lines) + marked(added, "") + "\n"
