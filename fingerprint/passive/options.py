# SPDX-License-Identifier: MIT
"""TCP options of many segments at once: timestamps, MSS, scale, SACK.

Dropped: all others (MPTCP, fast open, authentication), since no reading of a capture uses them; a signature is read
from whole segments. MSS and scale count once, the first.

Nearly every segment carries NOP, NOP, timestamps; those are read in one look. The others are walked option by option,
all segments together.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from configtron.fingerprint.passive.columns import ABSENT, DSACKED, SACK_OK, SACKED, STAMPED, Column
from configtron.model.nouns import OPT_EOL, OPT_MSS, OPT_NOP, OPT_SACK, OPT_SACK_PERMITTED, OPT_TIMESTAMPS, OPT_WSCALE

# NOP, NOP, timestamps of 10 bytes: how Linux, BSD and Windows write them outside of SYNs (RFC 7323 appendix A).
USUAL = 0x0101080A
# Options start after the fixed header, in which the acknowledged number stands here.
FIXED, ACK_AT = 20, 8
# Length of a SACK option with one block.
SACK_SINGLE = 10
# Four blocks of two numbers fill all the room for options.
SACK_NUMBERS_MOST = 8
# Odd, so that no bit of a number is lost when the next is added.
_SPREAD = np.uint32(0x9E3779B1)


class Options(NamedTuple):
    """The TCP options, a column each. blocks: 16 bits that differ, but for chance, where SACK blocks do."""

    tsval: Column
    tsecr: Column
    mss: Column
    wscale: Column
    bits: Column
    blocks: Column


def read_options(tcp: Column, size: Column) -> Options:
    """Return `tcp`: TCP headers, 60 bytes a row; `size`: bytes of options in each, 0 where they were not captured."""
    count = len(size)
    kinds = ((0, np.uint32), (0, np.uint32), (ABSENT, np.int32), (ABSENT, np.int16), (0, np.uint8), (0, np.uint16))
    found = Options(*(np.full(count, none, kind) for none, kind in kinds))
    words = tcp.view(">u4")
    usual = (words[:, 5] == USUAL) & (size >= 12)
    at = np.flatnonzero(usual)
    found.tsval[at], found.tsecr[at], found.bits[at] = words[at, 6], words[at, 7], STAMPED
    more = np.flatnonzero((size > 12) & usual)
    if len(more):
        _walk(tcp[more], size[more], more, found, 12)
    rest = np.flatnonzero((size > 0) & ~usual)
    if len(rest):
        _walk(tcp[rest], size[rest], rest, found, 0)
    return found


def _walk(tcp: Column, size: Column, rows: Column, found: Options, begin: int) -> None:
    """Option by option; a row leaves when its list ends or makes no sense."""
    at = np.full(len(rows), begin, np.int64)
    alive = np.arange(len(rows))
    while len(alive):
        place = at[alive] + FIXED
        kind = tcp[alive, place]
        single = kind == OPT_NOP
        # The length byte of an option at the very end would lie outside.
        length = np.where(single, 1, tcp[alive, np.minimum(place + 1, tcp.shape[1] - 1)]).astype(np.int64)
        sane = (kind != OPT_EOL) & (single | ((length >= 2) & (at[alive] + length <= size[alive])))
        for known, (least, most), store in _KNOWN:
            hit = np.flatnonzero(sane & (kind == known) & (length >= least) & (length <= most))
            if len(hit):
                store(found, rows[alive[hit]], tcp[alive[hit]], place[hit] + 2)
        at[alive] += length
        alive = alive[sane & (at[alive] < size[alive])]


def _number(tcp: Column, at: Column, size: int) -> Column:
    value = np.zeros(len(at), np.uint32)
    rows = np.arange(len(at))
    for offset in range(size):
        value = value << np.uint32(8) | tcp[rows, at + offset]
    return value


def _timestamps(found: Options, rows: Column, tcp: Column, at: Column) -> None:
    found.tsval[rows], found.tsecr[rows] = _number(tcp, at, 4), _number(tcp, at + 4, 4)
    found.bits[rows] |= STAMPED


def _mss(found: Options, rows: Column, tcp: Column, at: Column) -> None:
    first = found.mss[rows] == ABSENT
    found.mss[rows[first]] = _number(tcp, at, 2)[first]


def _wscale(found: Options, rows: Column, tcp: Column, at: Column) -> None:
    first = found.wscale[rows] == ABSENT
    found.wscale[rows[first]] = _number(tcp, at, 1)[first]


def _sack_ok(found: Options, rows: Column, tcp: Column, at: Column) -> None:
    found.bits[rows] |= SACK_OK


def _sack(found: Options, rows: Column, tcp: Column, at: Column) -> None:
    # A single block that ends where everything has been acknowledged reports a copy, not of a hole (RFC 2883 4).
    beyond = (_number(tcp, at + 4, 4) - _number(tcp, np.full(len(at), ACK_AT), 4)).view(np.int32)
    single = tcp[np.arange(len(at)), at - 1] == SACK_SINGLE
    found.bits[rows] |= np.where(single & (beyond <= 0), DSACKED, SACKED).astype(np.uint8)
    found.blocks[rows] = _blocks(tcp, at)


def _blocks(tcp: Column, at: Column) -> Column:
    numbers = (tcp[np.arange(len(at)), at - 1].astype(np.int64) - 2) // 4
    mixed = np.zeros(len(at), np.uint32)
    for which in range(SACK_NUMBERS_MOST):
        # Where there are fewer, this reads other bytes of the row, which nothing uses.
        value = _number(tcp, np.minimum(at + 4 * which, tcp.shape[1] - 4), 4)
        mixed = np.where(which < numbers, (mixed + value + np.uint32(1)) * _SPREAD, mixed)
    return (mixed >> np.uint32(16)).astype(np.uint16)


# Option kind, the lengths that make sense, where it goes. SACK has one block or more.
_KNOWN = (
    (OPT_TIMESTAMPS, (10, 10), _timestamps), (OPT_MSS, (4, 4), _mss), (OPT_WSCALE, (3, 3), _wscale),
    (OPT_SACK_PERMITTED, (2, 2), _sack_ok), (OPT_SACK, (10, 40), _sack),
)  # fmt: skip
