# SPDX-License-Identifier: MIT
"""Parse and format columns of IPv4 prefixes, a million at once; `ipaddress` does it one by one."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from configtron.model.prefix_columns import Places, Texts, cut_words

Addresses: TypeAlias = NDArray[np.uint32]
Lengths: TypeAlias = NDArray[np.uint8]

DOT, SLASH, ZERO, NINE = (np.uint8(letter) for letter in b"./09")
# Numbers in a prefix: four octets and a length.
PARTS = 5
# The most digits of an octet, and of a length.
OCTET_DIGITS, LENGTH_DIGITS = 3, 2
ADDRESS_BITS = 32
LARGEST_OCTET = 255


class Ipv4Columns(NamedTuple):
    """The IPv4 prefixes among n texts, in the form that `rules.canonical` writes; others are no IPv4 prefix here.

    rows       (n,) whether each text is one
    addresses  (number of those,) network addresses in host order
    lengths    (number of those,) prefix lengths, bits
    """

    rows: NDArray[np.bool_]
    addresses: Addresses
    lengths: Lengths


def parse_ipv4(texts: Texts) -> Ipv4Columns:
    """Parse those of the texts that are canonical IPv4 prefixes: no leading zeros, no host bits."""
    width = texts.itemsize
    letters = texts.view(np.uint8).reshape(-1, width)
    marks, digits = letters - DOT <= SLASH - DOT, letters - ZERO <= NINE - ZERO
    written = np.count_nonzero(letters, axis=1)
    rows = np.count_nonzero(marks, axis=1) == PARTS - 1
    rows &= np.count_nonzero(digits, axis=1) == written - (PARTS - 1)
    some, their = (letters, marks) if rows.all() else (letters[rows], marks[rows])
    begins = np.arange(len(some)) * width
    values, valid = _parts(some.ravel(), begins, begins + written[rows], np.flatnonzero(their).reshape(-1, PARTS - 1))
    addresses = values[0] << 24 | values[1] << 16 | values[2] << 8 | values[3]
    host_bits = np.array([0xFFFF_FFFF >> length for length in range(ADDRESS_BITS + 1)], np.uint32)
    valid &= np.maximum.reduce(values[:4]) <= LARGEST_OCTET
    valid &= addresses & host_bits[np.minimum(values[4], ADDRESS_BITS)] == 0
    valid &= values[4] <= ADDRESS_BITS
    rows[rows] = valid
    return Ipv4Columns(rows, addresses[valid].astype(np.uint32), values[4][valid].astype(np.uint8))


def _parts(
    flat: NDArray[np.uint8], begins: Places, ends: Places, marks: Places
) -> tuple[list[Addresses], NDArray[np.bool_]]:
    """Return the five numbers of each row, and whether its marks and digits are in canonical form.

    flat           the rows' characters, one row behind the other
    begins, ends   where each row begins and ends in `flat`
    marks          (rows, 4) where its three points and its slash are
    """
    # a view: the three characters before each position
    before = np.ndarray((len(flat) + 1,), "V3", np.concatenate([np.zeros(3, np.uint8), flat]).data, strides=(1,))
    valid = (flat[marks] == np.array([DOT, DOT, DOT, SLASH], np.uint8)).all(axis=1)
    found = []
    for part in range(PARTS):
        end = marks[:, part] if part < PARTS - 1 else ends
        length = end - begins
        digits = before[end].view(np.uint8).reshape(-1, 3).astype(np.uint32) - ZERO
        digits[:, 0] *= length > 2
        digits[:, 1] *= length > 1
        found.append(digits[:, 0] * 100 + digits[:, 1] * 10 + digits[:, 2])
        most = OCTET_DIGITS if part < PARTS - 1 else LENGTH_DIGITS
        # no leading zero: some parsers read such numbers as octal
        valid &= (
            (length > 0) & (length <= most) & ((length == 1) | (found[-1] >= 10) & ((length == 2) | (found[-1] >= 100)))
        )
        begins = end + 1
    return found, valid


def format_ipv4(addresses: Addresses, lengths: Lengths) -> Texts:
    """Return the prefixes as texts, in the same order."""
    numbers = np.array([str(number) for number in range(256)], "S3").view(np.uint8).reshape(-1, OCTET_DIGITS)
    rows = np.empty((len(addresses), 4 * (OCTET_DIGITS + 1) + LENGTH_DIGITS), np.uint8)
    for octet in range(4):
        at = octet * (OCTET_DIGITS + 1)
        rows[:, at : at + OCTET_DIGITS] = numbers[addresses >> np.uint32(24 - 8 * octet) & np.uint32(255)]
        rows[:, at + OCTET_DIGITS] = DOT if octet < 3 else SLASH
    rows[:, -LENGTH_DIGITS:] = numbers[lengths, :LENGTH_DIGITS]
    ends = np.cumsum((rows != 0).sum(axis=1))
    flat = rows.ravel()
    found = cut_words(flat[flat != 0], np.append(0, ends[:-1])[: len(ends)], ends)
    assert found is not None, "a prefix has 9 to 18 characters"
    return found
