# SPDX-License-Identifier: MIT
"""The header behind an IP header and its extension headers: TCP's, UDP's, a tunnel's.

Question   Which protocol follows the extension headers of an IP packet, and where does its header begin?
Method     Follow each header's "next header" for many packets at once. IPv4 knows one such header, AH.
Reads as   protocol number (`kind`), offset (`place`), and fragment: 0 for a whole packet.
Fails as   cut: the capture ends within the headers. After `EXTENSIONS_MOST` headers `kind` is still an extension's.
Source     RFC 8200 4.1, 4.4, 4.5; RFC 5095 (type 0); RFC 6275 6.4 (type 2); RFC 4302 2.2 (AH); RFC 6946 (a
           fragment that is the whole packet); RFC 8754 (SRv6)
"""

from __future__ import annotations

import numpy as np

from configtron.fingerprint.passive.columns import Column

# RFC 8200 4.1: hop-by-hop, routing, destination options, mobility, HIP, shim6. Length field: units of 8 bytes, less 1.
EXTENSIONS = (0, 43, 60, 135, 139, 140)
ROUTING, FRAGMENT, AUTHENTICATION = 43, 44, 51
# Types of routing header that hold whole addresses: of old (the last is the destination), mobile, segments (the first).
ROUTES = (0, 2, 4)
# Indexed by IP version and protocol number.
IS_EXTENSION = np.zeros((16, 256), bool)
IS_EXTENSION[6, [*EXTENSIONS, FRAGMENT]] = True
IS_EXTENSION[[4, 6], AUTHENTICATION] = True
# No real packet carries as many extension headers; the limit ends a crafted chain.
EXTENSIONS_MOST = 8
# IPv6's fragment field holds the offset from this bit up, and the bit "more fragments" below. A field of at least this
# value is a later fragment's.
LATER_FROM = 8


def pass_extensions(
    version: Column | int, data: Column, start: Column, room: Column, place: Column, kind: Column, fragment: Column,
    final: Column | None = None,
) -> Column:  # fmt: skip
    """Move `place`, `kind` and `fragment` to the first header that is no extension; return which packets are cut.

    start, room  offset of the packet in `data`, and its captured length
    place, kind  offset of the next header in the packet, and its protocol number (in a later fragment: of the header
                 that the first fragment begins with); a routing header's if it hides the destination
    fragment     offset and "more fragments" as in IPv6's fragment header; 0: the packet is whole
    final        offset of the address that the packet goes to at last
    """
    cut = np.zeros(len(start), bool)
    for _ in range(EXTENSIONS_MOST):
        todo = np.flatnonzero(IS_EXTENSION[version, kind] & ~cut & (fragment < LATER_FROM))
        if not len(todo):
            break
        cut[todo] = room[todo] < place[todo] + 8
        todo = todo[~cut[todo]]
        first = start[todo] + place[todo]
        routed = (kind[todo] == ROUTING) & (data[first + 3] > 0)
        # Of another type, or too short for an address: it is not passed.
        hidden = routed & (~np.isin(data[first + 2], ROUTES) | (data[first + 1] < 2))
        todo, first, routed = todo[~hidden], first[~hidden], routed[~hidden]
        which, length = kind[todo], data[first + 1].astype(np.int64)
        if final is not None:
            last = place[todo] + np.where(data[first + 2] == 0, length * 8 - 8, 8)
            final[todo] = np.where(routed & (last + 16 <= room[todo]), last, final[todo])
        part = (data[first + 2].astype(np.uint16) << 8 | data[first + 3]) & 0xFFF9
        fragment[todo] |= np.where(which == FRAGMENT, part, 0).astype(np.uint16)
        place[todo] += np.where(which == FRAGMENT, 8, np.where(which == AUTHENTICATION, 8 + length * 4, 8 + length * 8))
        kind[todo] = data[first]
    return cut
