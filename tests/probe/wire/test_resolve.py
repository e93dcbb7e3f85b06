# SPDX-License-Identifier: MIT
"""A real resolver asks a small DNS server; both live in one throw-away namespace."""

import asyncio
import os
import socket
import threading
from collections.abc import Iterator
from dataclasses import replace

import dns.exception
import dns.flags
import dns.message
import dns.rcode
import dns.resolver
import dns.rrset
import pytest

from configtron.linux.netns import inside
from configtron.model.errors import BadInput
from configtron.model.nouns import Target, Vantage
from configtron.probe.blocklist import Blocklist
from configtron.probe.target_session import Answer
from configtron.probe.targets import Source
from configtron.probe.wire.addressing import Addresses
from configtron.probe.wire.resolve import _ask_all, asker, reason_of, resolve
from tests.support.namespaces import throwaway

ZONE = {"two.example.": ["192.0.2.20", "192.0.2.3"], "alias.example.": ["192.0.2.9"]}
CODES = {"broken.example.": dns.rcode.SERVFAIL, "no.example.": dns.rcode.REFUSED, "empty.example.": dns.rcode.NOERROR}


def reply(data: bytes) -> bytes | None:
    """What the server says: `ZONE`, `CODES`, silence for silent.example, else NXDOMAIN; names hold their number."""
    question = dns.message.from_wire(data)
    name = str(question.question[0].name)
    if name == "silent.example.":
        return None
    if name == "garbage.example.":
        return data[:2] + b"\x80\x00\x00"
    answer = dns.message.make_response(question)
    answer.flags |= dns.flags.RA
    addresses = ZONE.get(name, [f"198.51.100.{name[1:-9]}"] if name[1:-9].isdigit() else [])
    if name == "alias.example.":
        answer.answer.append(dns.rrset.from_text(name, 60, "IN", "CNAME", "real.example."))
        name = "real.example."
    if addresses and dns.rdatatype.to_text(question.question[0].rdtype) == "A":
        answer.answer.append(dns.rrset.from_text(name, 60, "IN", "A", *addresses))
    elif not addresses:
        answer.set_rcode(CODES.get(name, dns.rcode.NXDOMAIN))
    return answer.to_wire()


@pytest.fixture
def vantage() -> Iterator[Vantage]:
    with throwaway("dns") as netns:
        with inside(netns):
            server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            server.bind(("127.0.0.1", 5300))

        def serve() -> None:
            while True:
                data, peer = server.recvfrom(4096)
                if not data:
                    return
                if (response := reply(data)) is not None:
                    server.sendto(response, peer)

        thread = threading.Thread(target=serve)
        thread.start()
        yield Vantage("here", "here", netns, resolver="127.0.0.1:5300")
        with inside(netns), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as end:
            end.sendto(b"", ("127.0.0.1", 5300))
        thread.join()
        server.close()


@pytest.mark.root
def test_names_become_addresses_or_reasons(vantage: Vantage) -> None:
    home = os.stat("/proc/thread-self/ns/net").st_ino
    wanted = {
        "two.example": Answer(("192.0.2.3", "192.0.2.20")),
        "alias.example": Answer(("192.0.2.9",), aliases=("real.example.",)),
        "none.example": Answer((), "dns:nxdomain"),
        "broken.example": Answer((), "dns:servfail"),
        "no.example": Answer((), "dns:refused"),
        "empty.example": Answer((), "dns:no-address"),
        **{f"s{n}.example": Answer((f"198.51.100.{n}",)) for n in range(1, 255)},
    }
    assert resolve(list(wanted), vantage) == wanted == resolve(list(wanted), vantage)
    assert resolve(["two.example"], vantage, version=6)["two.example"].reason == "dns:no-address"
    assert os.stat("/proc/thread-self/ns/net").st_ino == home, "the thread did not come home"


@pytest.mark.root
@pytest.mark.parametrize(("blocked", "ending"), [
    ("real.example", "blocked"), ("*.real.example", "blocked"), ("192.0.2.9", "blocked"), ("other.example", "done"),
])  # fmt: skip
def test_an_alias_does_not_lead_around_the_blocklist(vantage: Vantage, blocked: str, ending: str) -> None:
    blocklist = Blocklist([Source("opt-out", blocked)], special=False)
    addresses = Addresses([replace(vantage, source_address="127.0.0.1")], (4,), blocklist)
    (window,) = (one for one in addresses.windows(iter([(0, Target("alias.example"))]), {}, 0) if one is not None)
    addresses.close()
    assert window[0].result is not None and window[0].result.ending == ending


@pytest.mark.root
def test_silence_is_a_timeout_and_no_way_is_unreachable(vantage: Vantage) -> None:
    assert resolve(["silent.example"], vantage, lifetime_s=0.3) == {"silent.example": Answer((), "dns:timeout")}
    nowhere = Vantage("x", "x", vantage.netns, resolver="192.0.2.53")
    assert resolve(["two.example"], nowhere, lifetime_s=0.3)["two.example"].reason == "dns:unreachable"


ANSWER = dns.message.make_response(dns.message.make_query("a", "A"))


@pytest.mark.parametrize(("error", "tries", "reason"), [
    (dns.resolver.NXDOMAIN, [], "dns:nxdomain"), (dns.resolver.NoAnswer, [], "dns:no-address"),
    (dns.exception.Timeout, [], "dns:timeout"), (OSError, [], "dns:unreachable"),
    (dns.exception.FormError, [], "dns:malformed"),
    # that no server answers is the last try's reason
    (dns.resolver.NoNameservers, [("192.0.2.53", True, 53, None, ANSWER)], "dns:noerror"),
    (dns.resolver.NoNameservers, [], "dns:malformed"),
])  # fmt: skip
def test_each_error_has_its_reason(error: type[Exception], tries: list[object], reason: str) -> None:
    failed = error.__new__(error)
    failed.kwargs = {"errors": tries}  # type: ignore[attr-defined]
    assert reason_of(failed) == reason


@pytest.mark.parametrize(
    ("resolver", "address", "port"),
    [("192.0.2.5", "192.0.2.5", 53), ("192.0.2.5:5300", "192.0.2.5", 5300), ("[2001:db8::1]:54", "2001:db8::1", 54)],
)
def test_where_to_ask(resolver: str, address: str, port: int) -> None:
    made = asker(resolver, 1.0)
    assert (made.nameservers, made.port) == ([address], port)


@pytest.mark.parametrize("resolver", ["dns.example", "192.0.2.53:x", "1.2.3.4.5"])
def test_bad_resolvers_are_named(resolver: str) -> None:
    with pytest.raises(BadInput, match="^resolver "):
        asker(resolver, 1.0)


def test_an_impossible_name_is_a_reason() -> None:
    answers = asyncio.run(_ask_all(["a..b", "x" * 64 + ".example"], asker("192.0.2.53", 0.1), "A"))
    assert [answer.reason for answer in answers] == ["dns:malformed"] * 2
