# SPDX-License-Identifier: MIT
"""Rotation of a manager's CURVE key: the next pair is made now and used later, and agents join by a line of it.

Question   How does a manager get another key without an agent that is enrolled anew?
Method     `enrolment.rotate` makes the next pair, notes its public half and a time, and returns a line for `tune agent
           --join`, the same for all agents: each keeps its own pair, and the manager's address. Once the time has
           passed, the running manager puts the next pair in the place of the present one, and binds its socket anew.
Stop when  The fact is gone: the pair on the disk is the noted one.
Fails as   An agent that has the other key is not heard: it goes on with the map that it has, and its outcomes wait in
           its spool, until an operator gives it the line.
Differs    from a key that the manager sends: an operator copies it, so no message can plant one.
Source     ZeroMQ RFC 26 (CurveZMQ)
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from configtron.db.fleet import FleetStore
from configtron.db.fleet_facts import damaged
from configtron.fleet.transport.curve_keys import is_curve_key, put_next_pair
from configtron.model.records import canonical

# Fact of the manager's database: the rotation.
ROTATION = "key rotation"


@dataclass(frozen=True, slots=True)
class KeyRotation:
    """The public half of the next pair, and the wall clock, s, at which it becomes the manager's."""

    public: str
    until_s: int

    @property
    def text(self) -> str:
        """Return it as the fact's text."""
        return canonical({"public": self.public, "until_s": self.until_s})


def rotation_of(facts: Mapping[str, str]) -> KeyRotation | None:
    """Return the rotation that is under way. Errors: `BadInput` for a damaged fact."""
    if not (text := facts.get(ROTATION, "")):
        return None
    try:
        form = json.loads(text)
        found = KeyRotation(str(form["public"]), int(form["until_s"]))
    except (ValueError, TypeError, LookupError, OverflowError, RecursionError) as error:
        raise damaged(ROTATION, "the database") from error
    if not is_curve_key(found.public):
        raise damaged(ROTATION, "the database")
    return found


def change_key(store: FleetStore, keys: Path, rotation: KeyRotation) -> bool:
    """Put the next pair in the place of the present one; whether it is there. Again after a kill, it changes nothing.

    Errors: `BadInput`, `Missing`, `Unwritten`.
    """
    changed = put_next_pair(keys, rotation.public)
    store.drop_fact(ROTATION)
    return changed
