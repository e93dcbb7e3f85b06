# SPDX-License-Identifier: MIT
"""Two older ways to read an initial window, to be measured beside ours.

What a scapy script does at its best (the AsyncSniffer of its documentation, running before the first packet is sent;
frames that an offload merged count as the segments in them), and what COMSYS's ZMap module counts; written here as they
are described.

    python -m benchmarks.naive ADDRESS COUNT SOURCE      scapy's way, inside the vantage's namespace; a number a line
"""

from __future__ import annotations

import random
import sys
from collections.abc import Sequence
from threading import Event
from time import sleep

from configtron.model.nouns import SYN, Trace

# What such scripts offer, and how long they listen: above Linux's smallest retransmission timeout.
MSS = 64
LISTEN_S = 0.6


def span(trace: Trace) -> int:
    """Segments by span, as COMSYS's ZMap module counts (`initcwnd_common.c`): the highest byte before the first repeat,
    over the segment size offered."""
    highest, seen = 0, set()
    for packet in trace.packets:
        segment = packet.segment
        if packet.way == "out" or segment.length <= 0 or segment.flags & SYN:
            continue
        if segment.seq in seen:
            break
        seen.add(segment.seq)
        highest = max(highest, segment.end - 1)
    return highest // MSS


def scapy_icw(address: str, source: str, port: int) -> int:
    """A SYN, an ACK and a GET, heard by a sniffer that was started before: segments before the first repeat."""
    from scapy.all import IP, TCP, AsyncSniffer, conf, send, sr1  # type: ignore[attr-defined]

    conf.verb = 0
    started = Event()
    heard = AsyncSniffer(filter=f"tcp and src host {address} and dst port {port}", started_callback=started.set)
    heard.start()
    started.wait()
    number = random.randrange(1 << 32)
    to = IP(src=source, dst=address)
    synack = sr1(to / TCP(sport=port, dport=80, flags="S", seq=number, options=[("MSS", MSS)]), timeout=2)
    if synack is None:
        return 0
    ends = {"sport": port, "dport": 80, "seq": number + 1, "ack": synack.seq + 1}
    send(to / TCP(**ends, flags="A"))
    request = f"GET / HTTP/1.1\r\nHost: {address}\r\n\r\n".encode()
    send(to / TCP(**ends, flags="PA") / request)
    sleep(LISTEN_S)
    # The last of the samples may still lie in the socket: the reset comes after them all. It carries the number the
    # server expects (RFC 5961), or the connection would live on and meet the next one at its port.
    send(to / TCP(sport=port, dport=80, seq=ends["seq"] + len(request), flags="R"))
    seen: dict[int, int] = {}
    for packet in heard.stop() or []:
        if TCP in packet and len(packet[TCP].payload):
            if packet[TCP].seq in seen:
                break
            seen[packet[TCP].seq] = -(-len(packet[TCP].payload) // MSS)
    return sum(seen.values())


def main(words: Sequence[str]) -> None:
    address, count, source = words[0], int(words[1]), words[2]
    first = random.randrange(40_000, 60_000)
    for n in range(count):
        print(scapy_icw(address, source, first + n), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
