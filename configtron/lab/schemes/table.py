# SPDX-License-Identifier: MIT
"""Congestion controls of user space: one row each. To add one: its file in this folder, and its row here.

name     as flows and studies call it; the kernel has none of that name
make     returns an instance for one flow; its argument is the flow's random generator
source   where it is specified
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from configtron.lab.schemes.allegro import Allegro
from configtron.lab.schemes.copa import Copa
from configtron.lab.schemes.gcc import Gcc
from configtron.lab.schemes.indigo import Indigo
from configtron.lab.schemes.indigo_network import LearnedAction, shipped
from configtron.lab.schemes.ledbat import Ledbat
from configtron.lab.schemes.scheme import Scheme
from configtron.lab.schemes.scream import Scream
from configtron.lab.schemes.sprout import Sprout
from configtron.lab.schemes.verus import Verus
from configtron.lab.schemes.vivace import Vivace


class UserSpaceScheme(NamedTuple):
    """A scheme's row."""

    name: str
    make: Callable[[np.random.Generator], Scheme]
    source: str


USER_SPACE_SCHEMES: tuple[UserSpaceScheme, ...] = (
    UserSpaceScheme("ledbat", lambda _: Ledbat(), "RFC 6817"),
    UserSpaceScheme("copa", lambda _: Copa(), "Arun and Balakrishnan, NSDI 2018"),
    UserSpaceScheme("allegro", Allegro, "PCC: Dong and others, NSDI 2015"),
    UserSpaceScheme("vivace", Vivace, "PCC Vivace: Dong and others, NSDI 2018"),
    UserSpaceScheme("scream", lambda _: Scream(), "RFC 8298"),
    UserSpaceScheme("sprout", lambda _: Sprout(), "Winstein and others, NSDI 2013"),
    UserSpaceScheme("verus", lambda _: Verus(), "Zaki and others, SIGCOMM 2015"),
    UserSpaceScheme("indigo", lambda _: Indigo(LearnedAction(shipped())), "Yan and others, USENIX ATC 2018"),
    UserSpaceScheme("gcc", lambda _: Gcc(), "draft-ietf-rmcat-gcc-02"),
)

OF_USER_SPACE: tuple[str, ...] = tuple(row.name for row in USER_SPACE_SCHEMES)


def made(name: str, rng: np.random.Generator) -> Scheme:
    """Return a scheme for one flow. Errors: `KeyError` for a name that is not in the table."""
    rows = {row.name: row for row in USER_SPACE_SCHEMES}
    return rows[name].make(rng)
