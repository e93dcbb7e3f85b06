# SPDX-License-Identifier: MIT
"""ICMP messages that a packet was too big for a link: of which connection, and the link's MTU.

Rules for this file: a message counts if it quotes the headers of TCP over IP up to both ports. An MTU of 0 is of a
router older than RFC 1191.

Source     RFC 1191 4 (destination unreachable, fragmentation needed); RFC 8201, RFC 4443 3.2 (packet too big)
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from configtron.fingerprint.passive.columns import KEY, Column, Frames

ICMP, ICMP6, TCP = 1, 58, 6
# Type and code of the message; where in it the MTU stands, and the quoted packet.
TOO_BIG4, TOO_BIG6 = b"\3\4", b"\2\0"
QUOTED = 8


def too_big(frames: Frames, at: Column, four: Column, six: Column) -> Iterator[tuple[bytes, int, int]]:
    """Yield (key of the pair of ends, time in ns, MTU) of each message; `at`: where in each frame its IP header begins,
    `four`, `six`: the frames of IPv4 and IPv6."""
    data = frames.data
    kinds = data[frames.start[four] + at[four] + 9] == ICMP, data[frames.start[six] + at[six] + 6] == ICMP6
    for rows, says in ((four[kinds[0]], TOO_BIG4), (six[kinds[1]], TOO_BIG6)):
        for row in rows.tolist():
            begin = int(frames.start[row] + at[row])
            packet = data[begin : int(frames.start[row] + frames.kept[row])].tobytes()
            message = packet[_header(packet) :]
            key = _key(message[QUOTED:]) if message[:2] == says else b""
            if key:
                mtu = message[6:8] if says == TOO_BIG4 else message[4:8]
                yield key, int(frames.at[row]), int.from_bytes(mtu, "big")


def _header(packet: bytes) -> int:
    return 40 if packet[0] >> 4 == 6 else (packet[0] & 15) * 4


def _key(quoted: bytes) -> bytes:
    """Return the key of a quoted packet's ends (`Pairs`); b"" if it is no TCP, or cut before its ports."""
    if len(quoted) < 20 or len(quoted) < _header(quoted) + 4:
        return b""
    is6 = quoted[0] >> 4 == 6
    if quoted[6 if is6 else 9] != TCP:
        return b""
    ports = quoted[_header(quoted) :]
    size, first = (16, 8) if is6 else (4, 12)
    ends = [(quoted[first + n * size :][:size].rjust(16, b"\0"), ports[n * 2 : n * 2 + 2]) for n in (0, 1)]
    (low, low_port), (high, high_port) = sorted(ends)
    key = np.zeros(1, KEY)
    key["version"] = 6 if is6 else 4
    key["port0"], key["port1"] = int.from_bytes(low_port, "big"), int.from_bytes(high_port, "big")
    for name, address in (("0", low), ("1", high)):
        key["high" + name], key["low" + name] = (int.from_bytes(address[n : n + 8], "big") for n in (0, 8))
    return key.tobytes()
