# SPDX-License-Identifier: MIT
"""The header behind an IP header and its extension headers: TCP's, UDP's, a tunnel's.

Question   Which protocol does an IP packet carry behind its extension headers, and where does that begin?
Method     Follow each header's "next header" for many packets at once. IPv4 knows one such header, AH.
Reads as   kind, place; fragment: 0 for a whole packet.
Fails as   cut. A longer chain than `EXTENSIONS_MOST` ends in the kind of an extension header.
Source     RFC 8200 4.1, 4.5; RFC 4302 2.2 (AH); RFC 6946 (a fragment that is the whole packet); RFC 8754 (SRv6)
"""

from __future__ import annotations

import numpy as np

from configtron.fingerprint.passive.columns import Column

# RFC 8200 4.1: hop-by-hop, routing, destination options, mobility, HIP, shim6; counted in 8 bytes after the first 8.
EXTENSIONS = (0, 43, 60, 135, 139, 140)
FRAGMENT, AUTHENTICATION = 44, 51
# By version of IP and protocol number.
IS_EXTENSION = np.zeros((16, 256), bool)
IS_EXTENSION[6, [*EXTENSIONS, FRAGMENT]] = True
IS_EXTENSION[[4, 6], AUTHENTICATION] = True
# More extension headers than any real packet carries: a crafted chain must end.
EXTENSIONS_MOST = 8
# A fragment's offset is in the bits from here on, as IPv6 has it; below is the bit "more".
LATER_FROM = 8


def pass_extensions(
    version: Column | int, data: Column, start: Column, room: Column, place: Column, kind: Column, fragment: Column
) -> Column:
    """Move `place`, `kind` and `fragment` on to the first header that is no extension; return whose headers are cut.

    start, room  where in `data` the packet begins, and its bytes there
    place, kind  bytes from there to the next header, and its number; a later fragment names what the first begins with
    fragment     offset and "more" as IPv6's fragment header has them; 0: whole
    """
    cut = np.zeros(len(start), bool)
    for _ in range(EXTENSIONS_MOST):
        walk = np.flatnonzero(IS_EXTENSION[version, kind] & ~cut & (fragment < LATER_FROM))
        if not len(walk):
            break
        cut[walk] = room[walk] < place[walk] + 8
        walk = walk[~cut[walk]]
        first = start[walk] + place[walk]
        which, length = kind[walk], data[first + 1].astype(np.int64)
        part = (data[first + 2].astype(np.uint16) << 8 | data[first + 3]) & 0xFFF9
        fragment[walk] |= np.where(which == FRAGMENT, part, 0).astype(np.uint16)
        place[walk] += np.where(which == FRAGMENT, 8, np.where(which == AUTHENTICATION, 8 + length * 4, 8 + length * 8))
        kind[walk] = data[first]
    return cut
