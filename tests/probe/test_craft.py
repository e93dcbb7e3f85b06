# SPDX-License-Identifier: MIT
"""A user's own packets: from template to parameter, packets, verdict, and from a recording."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from configtron.fingerprint import read
from configtron.model.errors import BadInput
from configtron.model.nouns import ACK, CWR, ECE, FIN, OPT_MSS, PSH, RST, SYN, Packet, Segment
from configtron.probe.craft import items, segment_of
from configtron.probe.script import Send
from tests.support.played import Ruled, seen, trace_of

pytest.importorskip("scapy", reason="templates are written in Scapy's words")
from configtron.probe.wire.packet_template import read_template

TEMPLATE = """
# a SYN with an unassigned option, then a request of one byte too few
TCP(flags="SEC", options=[("MSS", 1400), (253, b"\\xf9\\x89")], window=1024)
wait 0.5
IP(tos=3)/TCP(flags="PA", seq=1, ack=1)/b"GET / HTTP/1.0\\r\\n\\r"
TCP(flags="FPU", seq=18, ack=1)
"""


def test_a_template_becomes_segments() -> None:
    first, wait, request, last = items(read_template(TEMPLATE, "t"))
    assert isinstance(first, Send) and isinstance(request, Send) and isinstance(last, Send)
    assert first.segment.flags == SYN | ECE | CWR and first.segment.window == 1024
    assert [found for found in first.segment.options if found[0] not in (0, 1)] == [
        (OPT_MSS, (1400).to_bytes(2, "big")), (253, b"\xf9\x89"),
    ]  # fmt: skip
    assert wait == 0.5
    assert (request.tos, request.segment.payload, request.segment.length) == (3, b"GET / HTTP/1.0\r\n\r", 17)
    assert request.segment.flags == PSH | ACK and last.segment.flags == FIN | PSH | 0x20


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("TCP(dport=22)", "t:1: dport: the prober sets this"),
        ("IP(dst='192.0.2.9')/TCP(flags='S')", "t:1: dst: the prober sets this"),
        ("IP(frag=4)/TCP()", "t:1: frag"),
        ("TCP(flags='S'", "t:1: SyntaxError"),
        ("open('/etc/passwd')", "t:1: NameError"),
        ("IP()/b'x'", "no TCP packet"),
        ("7", "t:1: SyntaxError"),
        ("wait soon", "wait takes seconds"),
        ("wait 1e9", "wait takes seconds"),
        ("TCP(flags='S', window=70000)", "t:1: cannot be built"),
        ("# nothing", "0 packets"),
        ("\n".join(["TCP()"] * 65), "65 packets"),
        # attributes, comprehensions, lambdas and format strings lead from a packet to `os.system`: none is evaluated
        ("[c for c in ().__class__.__base__.__subclasses__() if c.__name__ == '_wrap_close'][0]"
         ".__init__.__globals__['system'](COMMAND) or TCP(flags='S')", "t:1: "),
        ("TCP(flags=TCP.__init__.__globals__['__builtins__']['__import__']('os').system(COMMAND))", "t:1: "),
        ("(lambda: TCP)()()", "t:1: "),
        ("TCP.__class__", "t:1: "),
        ("TCP(**{'dport': 22})", "t:1: "),
        ("TCP(b'0' * 20)", "t:1: "),
        ("TCP(window=(1, 1000))", "t:1: "),
        ("TCP(flags='S') / (b'x' * 10**9)", "t:1: "),
        ("TCP(flags='S') / (b'x' * 100000)", "t:1: "),
        ("TCP(flags=f'{TCP}')", "t:1: "),
        ("(" * 300 + "TCP()" + ")" * 300, "t:1: "),
    ],
)  # fmt: skip
def test_what_a_template_may_not_say(line: str, words: str, tmp_path: Path) -> None:
    made = tmp_path / "made"
    with pytest.raises(BadInput) as refused:
        read_template(line.replace("COMMAND", repr(f"touch {made}")), "t")
    assert words in str(refused.value) and "\n" not in str(refused.value) and not made.exists()


def test_a_payload_may_be_repeated() -> None:
    (sent,) = items(read_template("IPv6(tc=1)/TCP(flags='PA', seq=1)/('x' * 1400)", "t"))
    assert isinstance(sent, Send) and (sent.tos, sent.segment.length) == (1, 1400)


@pytest.mark.parametrize("word", ["0:00", "0:" + "00" * 20, "x:00", "wait:", "0:" + "00" * 12 + "60" + "00" * 10])
def test_a_parameter_that_is_no_packet_is_refused(word: str) -> None:
    with pytest.raises(BadInput):
        list(items(word))


def test_an_option_that_runs_over_the_header_is_refused() -> None:
    header = bytes(12) + bytes([0x60, 2]) + bytes(6) + bytes([8, 10, 0, 0])
    with pytest.raises(ValueError, match="option 8"):
        segment_of(header)


def answering(segment: Segment, tos: int) -> Sequence[tuple[Segment, int]]:
    """SYN: SYN-ACK. Data: an ACK, and 5 bytes in two segments. FIN: a reset."""
    if segment.flags & RST:
        return []
    if segment.flags & SYN:
        return [(Segment(SYN | ACK, ack=1, window=500, options=((OPT_MSS, b"\x05\xb4"),)), 60)]
    if segment.length:
        return [(Segment(ACK, 1, segment.end), 60), *((Segment(ACK, at, segment.end, length=5), 60) for at in (1, 6))]
    return [(Segment(RST, 11), 60)]


def test_answers_are_read_in_order() -> None:
    verdict = seen("craft", Ruled(answering), packets=read_template(TEMPLATE, "t"))["craft"]
    assert (verdict.value, verdict.grade) == ("SA A A+5x2 R", "C")
    details = dict(verdict.details)
    assert (details["answers"], details["window"], details["options"]) == (5, 500, (2,))
    assert details["first_s"] == pytest.approx(0.05)


def test_an_answer_before_the_first_packet_has_no_delay() -> None:
    """A foreign trace may hold what another connection's packets provoked."""
    early = Packet(0.0, "in", Segment(RST), 0)
    (found,) = read(trace_of((early, Packet(1.0, "out", Segment(SYN), 1)), "craft"))
    assert (found.value, found.detail("first_s")) == ("R", None)


@pytest.mark.parametrize(("line", "reason"), [("TCP(flags='S')", "no-synack"), ("TCP(flags='F')", "no-data")])
def test_silence_has_a_reason(line: str, reason: str) -> None:
    packets = read_template(line, "t")
    assert seen("craft", Ruled(lambda segment, tos: []), packets=packets)["craft"].reason == reason
