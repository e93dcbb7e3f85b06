# SPDX-License-Identifier: MIT
"""Rotation of a manager's CURVE key: agents learn the next key, signed, while the present one still works.

Question   How does a manager get another key without an agent that is cut off, and without a second port?
Method     `rotate` makes the next pair and notes its public half, a serial number and a time. The running manager signs
           it with the key that signs maps, and sends it with each answer until the agent has written it down. Once all
           enrolled agents have, or the time has passed, the next pair takes the place of the present one, and the
           sockets are bound anew. An agent that knows two keys and hears nothing for `TRY_S` tries the other one; the
           key by which it hears its manager again is the only one from then on.
Stop when  The fact is gone: the pair on the disk is the noted one.
Reads as   Which agents do not hold the next key.
Fails as   An agent that did not hear of it in time joins anew, by a line of `enroll`.
Differs    from two keys at once, which libzmq does only on two pairs of ports. A serial that is not later than the last
           one is refused: an old message, sent again, cannot bring back a key that leaked.
Source     ZeroMQ RFC 26 (CurveZMQ); Salt's key rotation, after which all minions authenticate at once, is avoided.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from nacl.exceptions import CryptoError
from nacl.signing import SigningKey

from configtron.db.fleet import FleetStore, manager_store
from configtron.db.fleet_facts import damaged
from configtron.fleet.messages import NextKey, key_text
from configtron.fleet.transport.curve_keys import (
    NEXT,
    ManagerAddress,
    curve_pair,
    is_curve_key,
    put_next_pair,
    write_manager_address,
)
from configtron.model.bounds import check_number
from configtron.model.errors import ConfigtronError
from configtron.model.records import canonical

log = logging.getLogger("configtron.fleet")

# Facts of the manager's database: the rotation, and the agents that it waits for.
ROTATION, WITHOUT = "key rotation", "key rotation waits"
# s of silence after which an agent that knows two keys tries the other one.
TRY_S = 8.0
MOST_HOURS = 24 * 365


@dataclass(frozen=True, slots=True)
class KeyRotation:
    """The public half of the next pair, its serial number, and the wall clock, s, after which no agent is waited
    for."""

    public: str
    serial: int
    until_s: int

    def message(self, manager: str, term: int, key: SigningKey) -> NextKey:
        """Return it as agents are sent it."""
        signature = key.sign(key_text(self.public, self.serial)).signature
        return NextKey(manager, term, self.public, self.serial, signature)


def rotation_of(facts: Mapping[str, str]) -> KeyRotation | None:
    """Return the rotation that is under way. Errors: `BadInput` for a damaged fact."""
    if not (text := facts.get(ROTATION, "")):
        return None
    try:
        form = json.loads(text)
        found = KeyRotation(str(form["public"]), int(form["serial"]), int(form["until_s"]))
    except (ValueError, TypeError, LookupError, OverflowError, RecursionError) as error:
        raise damaged(ROTATION, "the database") from error
    if not is_curve_key(found.public):
        raise damaged(ROTATION, "the database")
    return found


def rotate(
    database: Path, keys: Path, within_h: float = 24.0, now_s: float | None = None
) -> tuple[KeyRotation, list[str]]:
    """Begin to rotate the manager's key, or give a rotation that is under way another end; return it, and the agents
    that are known not to hold the key yet.

    within_h  hours after which the key changes though an agent does not hold it

    Errors: `BadInput` for hours out of range, keys or the database; `Missing`, `Unwritten`.
    """
    check_number("within", within_h, 0, MOST_HOURS)
    now = time.time() if now_s is None else now_s
    with manager_store(database) as store:
        present = curve_pair(keys)
        facts = store.facts()
        before = rotation_of(facts)
        if before is None or before.public == present.public.decode():
            serial = max(int(now), before.serial + 1 if before else 0)
            before = KeyRotation(curve_pair(keys, NEXT).public.decode(), serial, 0)
        found = replace(before, until_s=int(now + within_h * 3600.0))
        store.put_facts({ROTATION: canonical({"public": found.public, "serial": found.serial,
                                              "until_s": found.until_s})})  # fmt: skip
        waits = json.loads(facts[WITHOUT]) if WITHOUT in facts else sorted(store.allowed().values())
    return found, [str(name) for name in waits]


def change_key(store: FleetStore, keys: Path, rotation: KeyRotation) -> bool:
    """Put the next pair in the place of the present one; whether it is there. Again after a kill, it changes nothing.

    Errors: `BadInput`, `Missing`, `Unwritten`.
    """
    changed = put_next_pair(keys, rotation.public)
    for name in (ROTATION, WITHOUT):
        store.drop_fact(name)
    return changed


class AgentKeys:
    """What an agent knows of its manager's keys, kept in its folder. address: by which to connect now."""

    def __init__(self, folder: Path, address: ManagerAddress, now_s: float, try_s: float = TRY_S) -> None:
        self._folder, self._kept, self._tried_s, self._try_s = folder, address, now_s, try_s
        self.address = address

    def learn(self, message: NextKey) -> bool:
        """Write the next key down; whether it is."""
        kept = self._kept
        if message.serial == kept.serial and message.curve in (kept.following, kept.curve):
            return True
        try:
            kept.verify_key.verify(key_text(message.curve, message.serial), message.signature)
        except (CryptoError, ValueError):
            log.warning("a next key is refused: its signature is not the manager's")
            return False
        if message.serial <= kept.serial or not is_curve_key(message.curve):
            log.warning("a next key is refused: it is not later than the one that is known")
            return False
        if not self._keep(replace(kept, following=message.curve, serial=message.serial)):
            return False
        log.info("the manager's next key is known")
        return True

    def turn(self, now_s: float, silence_s: float | None, connect: Callable[[ManagerAddress], None]) -> None:
        """Try the other key after a silence; stay with the one by which the manager is heard.

        silence_s  since the manager was heard; None: it never was
        """
        kept = self._kept
        if not kept.following:
            return
        heard_s = now_s - silence_s if silence_s is not None else float("-inf")
        if self.address.curve == kept.following and heard_s > self._tried_s:
            log.info("the manager has its next key")
            self.address = replace(kept, curve=kept.following, following="")
            if not self._keep(self.address):
                self._kept = self.address
        elif now_s - max(heard_s, self._tried_s) > self._try_s:
            other = kept.following if self.address.curve == kept.curve else kept.curve
            self.address, self._tried_s = replace(kept, curve=other), now_s
            connect(self.address)

    def _keep(self, address: ManagerAddress) -> bool:
        """Write an address down; whether it is."""
        try:
            write_manager_address(self._folder, address)
        except ConfigtronError as error:
            log.error("%s; the manager's next key is not kept", error)
            return False
        self._kept = address
        return True
