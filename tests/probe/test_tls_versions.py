# SPDX-License-Identifier: MIT
"""The hand-made hello against a real TLS library, and hand-made answers; then the verdict over all limits."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from configtron.fingerprint import read
from configtron.fingerprint.merge import merge_all
from configtron.fingerprint.tls_versions import HelloAnswer, answer_of
from configtron.model.nouns import Observation, Target, Trace
from configtron.probe.client_hello import SIGNATURES, VERSIONS, certificate_hello, client_hello
from configtron.probe.play import play
from configtron.probe.tls_versions import tls_versions
from configtron.probe.wire.stream import Plain, carry
from tests.support.recorded_messages import play_messages
from tests.support.tls_peer import Application, Peer, tls_context

TARGET = Target("site.test", "198.18.0.1", 443)
PYTHONS = {
    "1.0": ssl.TLSVersion.TLSv1, "1.1": ssl.TLSVersion.TLSv1_1, "1.2": ssl.TLSVersion.TLSv1_2,
    "1.3": ssl.TLSVersion.TLSv1_3,
}  # fmt: skip
# Python warns about the old versions; that is known.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


def server(folder: Path, least: str, most: str) -> Application:
    """A server engine that takes these versions: its answer to a hello."""
    context = tls_context(folder)
    context.set_ciphers("ALL:@SECLEVEL=0")
    context.minimum_version, context.maximum_version = PYTHONS[least], PYTHONS[most]

    def answer(heard: bytes) -> tuple[bytes, bool]:
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        incoming.write(heard)
        try:
            context.wrap_bio(incoming, outgoing, server_side=True).do_handshake()
        except ssl.SSLWantReadError:
            return outgoing.read(), False
        except ssl.SSLError:
            return outgoing.read(), True
        raise AssertionError("a hello alone finished a handshake")

    return answer


def ask(application: Application, most: str, **peer: Any) -> Trace:
    carried, log = carry(tls_versions(TARGET, "test", most=most), TARGET, lambda host, alpn: Plain())
    packets, ending = play(carried, Peer(application, **peer))
    params = (("most", most),)
    return Trace(f"t{most}", TARGET, "v", "tls_versions", params, 0, packets, tuple(log.messages), log.session, ending)


def verdict(*traces: Trace) -> Observation:
    return merge_all(o for t in traces for o in read(t))["tls_versions"]


@pytest.mark.parametrize(("least", "most"), [(a, b) for a in VERSIONS for b in VERSIONS if a <= b])
def test_the_versions_that_a_library_speaks_are_found(tmp_path: Path, least: str, most: str) -> None:
    speaks = server(tmp_path, least, most)
    traces = [ask(speaks, limit) for limit in VERSIONS for _ in range(2)]
    found = verdict(*traces)
    assert (found.value, found.grade) == (tuple(v for v in VERSIONS if least <= v <= most), "B"), found.trials
    assert all(play_messages(tls_versions(TARGET, "test", most=str(t.param("most"))), t) == t.ending for t in traces)


def silent(heard: bytes) -> tuple[bytes, bool]:
    return b"", False


@pytest.mark.parametrize(
    ("asked", "lost", "value", "still_open"),
    [
        # limits that were not tried leave a bound
        (("1.3", "1.2"), (), ("1.2", "1.3"), ("1.0", "1.1")),
        # a lost answer refuses nothing
        (("1.1", "1.2", "1.3"), ("1.0",), ("1.1", "1.2", "1.3"), ("1.0",)),
    ],
)
def test_what_was_not_answered_is_open(
    tmp_path: Path, asked: tuple[str, ...], lost: tuple[str, ...], value: tuple[str, ...], still_open: tuple[str, ...]
) -> None:
    speaks = server(tmp_path, "1.0", "1.3")
    unanswered = [ask(silent, limit) for limit in lost]
    found = verdict(*(ask(speaks, limit) for limit in asked), *unanswered)
    assert (found.value, found.grade, found.detail("open")) == (value, "L", still_open)
    assert {trace.ending for trace in unanswered} <= {"no-data"}


def test_a_repeated_answer_is_heard(tmp_path: Path) -> None:
    trace = ask(server(tmp_path, "1.2", "1.3"), "1.2", lose_in=frozenset({1, 2}))
    assert verdict(trace).value == ("1.2",)


def alert(level: int, number: int) -> bytes:
    return bytes([21, 3, 3, 0, 2, level, number])


@pytest.mark.parametrize(
    ("stated", "closes", "text"),
    [
        (alert(2, 70), True, "()"), (alert(2, 40), True, "- (tls:alert-handshake-failure)"),
        (alert(1, 112), True, "- (tls:alert-unrecognized-name)"), (alert(2, 201), True, "- (tls:alert-201)"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", True, "- (tls:not-tls)"), (b"\x15", True, "- (closed)"),
        (b"", True, "- (closed)"), (b"", False, "- (no-data)"),
    ],
)  # fmt: skip
def test_what_is_no_version_has_a_name(stated: bytes, closes: bool, text: str) -> None:
    (found,) = read(ask(lambda heard: (stated, closes), "1.2"))
    assert found.text == text


def test_other_refusals_count_once_some_hello_was_answered(tmp_path: Path) -> None:
    speaks = server(tmp_path, "1.2", "1.3")
    old = [ask(lambda heard: (b"", True), limit) for limit in ("1.0", "1.1")]
    found = verdict(ask(speaks, "1.2"), ask(speaks, "1.3"), *old)
    assert (found.value, found.grade) == (("1.2", "1.3"), "C")
    assert verdict(*old).reason == "closed"


def test_refused_old_and_failed_new_versions_are_no_bound() -> None:
    old = [ask(lambda heard: (alert(2, 70), True), limit) for limit in ("1.0", "1.1")]
    new = [ask(lambda heard: (alert(2, 40), True), limit) for limit in ("1.2", "1.3")]
    assert verdict(*old, *new).text == "- (tls:alert-handshake-failure)"
    assert verdict(*old).text == "- (tls:version)"
    assert verdict(*old, *(ask(lambda heard: (alert(2, 70), True), limit) for limit in ("1.2", "1.3"))).value == ()


def test_unlike_servers_behind_one_address_are_seen(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    one, other = server(tmp_path, "1.2", "1.3"), server(tmp_path / "other", "1.0", "1.3")
    traces = [ask(speaks, limit) for limit in VERSIONS for speaks in (one, other)]
    found = verdict(*traces)
    assert (found.value, found.grade, found.detail("torn")) == (tuple(VERSIONS), "C", ("1.0", "1.1"))


def test_an_address_is_not_named() -> None:
    assert b"198.18.0.1" not in client_hello("198.18.0.1", "1.3")
    assert b"site.test" in client_hello("site.test", "1.0")


@pytest.mark.parametrize(("most", "offered"), [("1.1", False), ("1.2", True), ("1.3", True)])
def test_signature_algorithms_are_offered_from_tls_1_2_on(most: str, offered: bool) -> None:
    """RFC 5246 section 7.4.1.4.1: extension 13, its length, the length of its list."""
    size = 2 * len(SIGNATURES)
    head = b"".join(number.to_bytes(2, "big") for number in (13, size + 2, size))
    assert (head in client_hello("site.test", most)) is offered


@settings(max_examples=300)
@given(st.binary(max_size=120), st.integers(0, 4))
def test_any_bytes_are_an_answer(data: bytes, cut: int) -> None:
    whole = answer_of(data)
    assert isinstance(whole, HelloAnswer)
    part = answer_of(data[: len(data) - cut])
    assert not part.final or part == whole, "a final answer does not change"


@pytest.mark.parametrize("most", ["1.2", "1.3"])
@pytest.mark.parametrize("host", ["site.test", ""])
def test_the_constant_hello_is_answered_with_a_certificate(tmp_path: Path, most: str, host: str) -> None:
    answer, closes = server(tmp_path, "1.2", most)(certificate_hello(host))
    # A handshake record with a ServerHello (RFC 8446 4), not a request to try again (4.1.4), and a chain behind it.
    assert not closes and (answer[0], answer[5]) == (22, 2) and len(answer) > 700
    assert bytes.fromhex("cf21ad74e59a6111") not in answer[:60]


def test_the_constant_hello_is_the_same_each_time() -> None:
    assert certificate_hello("site.test") == certificate_hello("site.test") != certificate_hello("")
    assert len(certificate_hello("site.test")) < 536
