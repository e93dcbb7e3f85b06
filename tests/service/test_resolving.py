# SPDX-License-Identifier: MIT
"""Names in bulk, from a DNS server on loopback: each asked for once, many at once, and only what is missing again."""

from __future__ import annotations

import re
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dns.message
import dns.rcode
import dns.rrset
import pytest

from configtron.cli.outermost import run
from configtron.model.errors import DONE, NOTHING, BadInput
from configtron.model.nouns import Vantage
from configtron.probe.targets import Source, read
from configtron.probe.wire.resolve import resolve_stream
from configtron.service import campaign
from tests.support.loopback import own_address


class NameServer:
    """Answers hN.example with 198.51.100.N, refuses `refused`, has no other name; counts questions, and those that wait
    until `held` have come."""

    def __init__(self) -> None:
        self.refused: set[str] = set()
        self.asked: Counter[str] = Counter()
        self.held = 1
        self.most_waiting = 0
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind((own_address(), 0))
        self.address = "{}:{}".format(*self._socket.getsockname())
        self._waiting: list[tuple[bytes, object]] = []
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            data, peer = self._socket.recvfrom(4096)
            if not data:
                return
            name = str(dns.message.from_wire(data).question[0].name).rstrip(".")
            self.asked[name] += 1
            if name.startswith("silent"):
                continue
            self._waiting.append((data, peer))
            self.most_waiting = max(self.most_waiting, len(self._waiting))
            if len(self._waiting) >= self.held:
                for question, whom in self._waiting:
                    self._socket.sendto(self._reply(question), whom)  # type: ignore[arg-type]
                self._waiting = []

    def _reply(self, data: bytes) -> bytes:
        question = dns.message.from_wire(data)
        name = str(question.question[0].name).rstrip(".")
        answer = dns.message.make_response(question)
        if name == "alias.example":
            answer.answer.append(dns.rrset.from_text("alias.example.", 60, "IN", "CNAME", "h1.example."))
            name = "h1.example"
        number = name.removesuffix(".example").removeprefix("h")
        if name in self.refused:
            answer.set_rcode(dns.rcode.REFUSED)
        elif number.isdigit():
            answer.answer.append(dns.rrset.from_text(f"{name}.", 60, "IN", "A", f"198.51.100.{int(number) % 250}"))
        else:
            answer.set_rcode(dns.rcode.NXDOMAIN)
        return answer.to_wire()

    def close(self) -> None:
        """End the thread."""
        host, _, port = self.address.rpartition(":")
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as end:
            end.sendto(b"", (host, int(port)))
        self._thread.join()
        self._socket.close()


@pytest.fixture
def server() -> Iterator[NameServer]:
    made = NameServer()
    yield made
    made.close()


def resolved(
    server: NameServer, folder: Path, lines: str, blocked: tuple[Path, ...] = (), **more: Any
) -> campaign.ResolvedNames:
    (folder / "list.txt").write_text(lines)
    targets = campaign.ProbeOptions(input_files=(folder / "list.txt",), max_targets=10**6, blocklist_files=blocked)
    return campaign.resolve_targets(campaign.ResolveOptions(targets, folder / "out.csv", server.address, **more))


def names(count: int) -> str:
    return "".join(f"{n + 1},h{n}.example\n" for n in range(count))


def test_each_name_is_asked_for_once_and_probe_run_reads_the_lines(server: NameServer, tmp_path: Path) -> None:
    lines = names(60) + "h7.example:8080\nhttp://h8.example/page\n192.0.2.9\nnope.example\n"
    assert resolved(server, tmp_path, lines) == (63, 1, 0)
    assert set(server.asked.values()) == {1} and len(server.asked) == 61
    found = list(read([Source("out", (tmp_path / "out.csv").read_text())]))
    by_name = {(one.host, one.port, one.path): one.address for one in found}
    assert by_name["h7.example", 80, "/"] == by_name["h7.example", 8080, "/"] == "198.51.100.7"
    assert by_name["h8.example", 80, "/page"] == "" and by_name["192.0.2.9", 80, "/"] == "192.0.2.9"
    assert len(found) == 63 and not any(one.host == "nope.example" for one in found)


def test_again_asks_for_what_is_missing_also_after_a_kill(server: NameServer, tmp_path: Path) -> None:
    server.refused = {"h3.example"}
    assert resolved(server, tmp_path, names(20) + "nope.example\n") == (19, 2, 0)
    out = tmp_path / "out.csv"
    out.write_text(out.read_text() + "198.51.100.99,h9")  # what a kill leaves of a line
    server.refused = set()
    server.asked.clear()
    assert resolved(server, tmp_path, names(25) + "nope.example\n") == (6, 0, 20)
    assert set(server.asked) == {"h3.example", *(f"h{n}.example" for n in range(20, 25))}
    assert len(list(read([Source("out", out.read_text())]))) == 25


def test_at_most_so_many_questions_are_under_way(server: NameServer, tmp_path: Path) -> None:
    server.held = 8  # answers come once eight wait
    assert resolved(server, tmp_path, names(40), at_once=8) == (40, 0, 0)
    assert server.most_waiting == 8


def test_a_name_without_an_answer_holds_up_no_other(server: NameServer) -> None:
    asked = ["silent.example", *(f"h{n}.example" for n in range(50))]
    began = time.monotonic()
    vantage = Vantage("v", "v", resolver=server.address)
    order = [name for name, _ in resolve_stream(asked, vantage, at_once=2, lifetime_s=3)]
    assert order[-1] == "silent.example" and sorted(order) == sorted(asked)
    assert time.monotonic() - began >= 3


def test_names_are_taken_as_there_is_room(server: NameServer) -> None:
    taken: list[str] = []

    def endless() -> Iterator[str]:
        for n in range(10**9):
            taken.append(f"h{n}.example")
            yield taken[-1]

    stream = resolve_stream(endless(), Vantage("v", "v", resolver=server.address), at_once=5)
    assert len([next(stream) for _ in range(30)]) == 30
    stream.close()  # type: ignore[attr-defined]
    assert len(taken) <= 40


def test_blocked_names_are_not_asked_for(server: NameServer, tmp_path: Path) -> None:
    (blocked := tmp_path / "blocked.txt").write_text("h1.example\n")
    assert resolved(server, tmp_path, f"{names(3)}alias.example\n", (blocked,)) == (2, 2, 0)
    assert "h1.example" not in server.asked and ",alias.example,,80 blocked" in (tmp_path / "out.csv").read_text()


@pytest.mark.parametrize("resolver", ["nope", "127.0.0.1:99999", "127.0.0.1:0", "[::1]:-5"])
def test_a_resolver_that_is_none_is_refused(tmp_path: Path, resolver: str) -> None:
    targets = campaign.ProbeOptions(words=("a.example",))
    with pytest.raises(BadInput, match=f"resolver {re.escape(repr(resolver))}"):
        campaign.resolve_targets(campaign.ResolveOptions(targets, tmp_path / "out.csv", resolver))


@pytest.mark.parametrize(("name", "code"), [("nowhere", NOTHING), ("h1.example", DONE)])
def test_no_answer_at_all_has_an_exit_code(server: NameServer, tmp_path: Path, name: str, code: int) -> None:
    words = ["probe", "resolve", "no.example", name, "-o", str(tmp_path / "x"), "--resolver", server.address]
    assert run(words) == code
