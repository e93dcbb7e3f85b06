# SPDX-License-Identifier: MIT
"""ICMP messages that a packet was too big for a link: the packet that each quotes, and the link's MTU.

Rules for this file: a message counts if it quotes the headers of TCP over IP up to both ports, which `headers.py` reads
as any others. An MTU of 0 is of a router older than RFC 1191.

Source     RFC 1191 4 (destination unreachable, fragmentation needed); RFC 8201, RFC 4443 3.2 (packet too big)
"""

from __future__ import annotations

import numpy as np

from configtron.fingerprint.passive.columns import Column, Frames

ICMP, ICMP6 = 1, 58
# Type and code of the message; where in it the MTU stands, and the quoted packet.
TOO_BIG4, TOO_BIG6 = b"\3\4", b"\2\0"
QUOTED = 8


def quoted_packets(frames: Frames, at: Column, four: Column, six: Column) -> tuple[Frames, list[int]]:
    """Return the quoted packets as frames of IP, and the MTU (bytes) of each; `at`: where in each frame its IP header
    begins, `four`, `six`: the frames of IPv4 and IPv6."""
    data, found = frames.data, list[tuple[int, int, int]]()
    kinds = data[frames.start[four] + at[four] + 9] == ICMP, data[frames.start[six] + at[six] + 6] == ICMP6
    for rows, says in ((four[kinds[0]], TOO_BIG4), (six[kinds[1]], TOO_BIG6)):
        for row in rows.tolist():
            begin = int(frames.start[row] + at[row])
            place = begin + (40 if says == TOO_BIG6 else (int(data[begin]) & 15) * 4)
            message = data[place : min(place + QUOTED, int(frames.start[row] + frames.kept[row]))].tobytes()
            if message[:2] == says and len(message) == QUOTED:
                mtu = message[6:8] if says == TOO_BIG4 else message[4:8]
                found.append((row, place + QUOTED - int(frames.start[row]), int.from_bytes(mtu, "big")))
    rows, before, sizes = np.array(found, np.int64).reshape(-1, 3).T
    start, kept, length = frames.start[rows] + before, frames.kept[rows] - before, frames.length[rows] - before
    return Frames(data, start, kept, length, frames.at[rows], frames.link[rows], net=frames.net[rows]), sizes.tolist()
