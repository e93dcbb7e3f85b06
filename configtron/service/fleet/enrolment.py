# SPDX-License-Identifier: MIT
"""Agents come and go: the line that one joins by, the allow-list, what each holds, and maps to roll back to."""

from __future__ import annotations

import json
import os
import pwd
import re
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

import zmq

from configtron.db.fleet import FleetStore, MapRow, manager_store
from configtron.db.fleet_facts import agent_states
from configtron.fleet.transport.curve_keys import (
    CURVE,
    MANAGER,
    NEXT,
    CurvePair,
    ManagerAddress,
    curve_pair,
    is_curve_key,
    manager_address,
    public_key,
    signing_key,
    write_curve_pair,
    write_manager_address,
)
from configtron.linux.xdg import MANAGERS_DB, elsewhere
from configtron.model.bounds import check_number
from configtron.model.errors import BadInput, no_permission
from configtron.model.records import Json
from configtron.service.fleet.agent_network import SPOOL
from configtron.service.fleet.key_rotation import ROTATION, KeyRotation
from configtron.service.fleet.manager_core import PAUSED, ROLLBACK
from configtron.service.lease.wanted_rules import NAME

# Until a key changes.
MOST_HOURS = 24 * 365
AGENT_COLUMNS = ("name", "state", "heard_at", "held", "driver", "refused", "waiting", "dropped", "skew_s", "reason")
# How the names of an agent's files begin, journals of its spool among them.
AGENT_FILES = (CURVE, MANAGER, SPOOL)
# In a line to join by, its checksum, and how long that is.
CHECK, CHECK_BYTES = "k", 4
# Addresses to listen at, not to connect to.
EVERY = ("*", "0.0.0.0", "[::]", "::")
MAP_COLUMNS = ("map", "made_at", "why", "prefixes", "whole")


@dataclass(frozen=True)
class JoinLine:
    """What an agent needs to join, in one word of letters, digits, - and _.

    name    the agent's; "": any that has joined already, and learns its manager's next key
    secret  its CURVE secret key; "": the agent has made its own pair
    """

    name: str
    address: ManagerAddress
    secret: str = ""

    @property
    def text(self) -> str:
        """Return the word."""
        form = {"n": self.name, "e": self.address.endpoint, "c": self.address.curve, "v": self.address.signing,
                "s": self.secret}  # fmt: skip
        whole = form | {CHECK: _checksum(form)}
        return urlsafe_b64encode(json.dumps(whole, separators=(",", ":")).encode()).decode().rstrip("=")


def _checksum(form: Mapping[str, str]) -> str:
    """Return what changes with every letter: a key with a slip of the pen in it is a key, too."""
    texts = "\n".join(f"{name} {text}" for name, text in sorted(form.items()))
    return blake2b(texts.encode("utf-8", "surrogatepass"), digest_size=CHECK_BYTES).hexdigest()


def join_line(text: str) -> JoinLine:
    """Return what a word of `JoinLine.text` says; one of an earlier release has no checksum. Errors: `BadInput`."""
    try:
        form = json.loads(urlsafe_b64decode(text + "=" * (-len(text) % 4)))
        check = form.pop(CHECK, None)
        if check is not None and check != _checksum({name: str(value) for name, value in form.items()}):
            raise ValueError("checksum")
        return JoinLine(str(form["n"]), ManagerAddress(str(form["e"]), str(form["c"]), str(form["v"])), str(form["s"]))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise BadInput("this is no line of `configtron learn manager enroll`; copy all of it") from error


def enroll(database: Path, keys: Path, name: str, endpoint: str, public: str = "") -> JoinLine:
    """Let an agent of that name connect, and return the line that it joins by.

    endpoint  tcp://HOST:PORT as agents reach the manager
    public    the agent's own public key as `tune agent --key` prints it; "": a pair is made here, and its secret half
              is in the line

    Errors: `BadInput` for a name that is none or is enrolled, an address that no agent can connect to, and for a key
    that is none.
    """
    if not NAME.fullmatch(name):
        raise BadInput(f"{name!r} cannot be an agent's name: letters, digits, - and _, at most 31")
    secret = ""
    if not public:
        made, hidden = zmq.curve_keypair()
        public, secret = made.decode(), hidden.decode()
    if not is_curve_key(public):
        raise BadInput(f"{public[:60]!r} is no public key; on the agent: configtron tune agent --key")
    host = endpoint.removeprefix("tcp://").rpartition(":")[0]
    if host in EVERY or not re.search("[0-9A-Za-z]", host):
        raise BadInput(f"--address {endpoint[:80]}: no agent can connect to {host[:60]!r}; name the manager as agents"
                       " reach it: tcp://manager.example:5560")  # fmt: skip
    address = ManagerAddress(endpoint, curve_pair(keys).public.decode(), bytes(signing_key(keys).verify_key).hex())
    with FleetStore(database) as store:
        store.enroll(name, public)
    return JoinLine(name, address, secret)


def join(folder: Path, line: JoinLine, user: str = "") -> ManagerAddress:
    """Write an agent's key and its manager's address, readable by the network process's user alone; return the address.

    Errors: `BadInput`, `Unwritten`.
    """
    _check_folder(folder)
    address = line.address
    if not address.endpoint:
        known = manager_address(folder)
        if known.signing != address.signing:
            raise BadInput(f"{folder}: this host has joined another manager ({known.endpoint}) than this line is of")
        address = replace(address, endpoint=known.endpoint)
    if line.secret:
        secret = line.secret.encode()
        write_curve_pair(folder, CurvePair(public_key(secret), secret))
    else:
        curve_pair(folder)
    write_manager_address(folder, address)
    give(folder, user)
    return address


def give(folder: Path, user: str) -> None:
    """Make a user the owner of a folder and its files, where this process is root. Errors: `BadInput`."""
    if os.geteuid() != 0 or not user:
        return
    try:
        found = pwd.getpwnam(user)
    except KeyError as error:
        remedy = f"make it: useradd --system --no-create-home --shell /usr/sbin/nologin {user}"
        raise BadInput(f"no user is called {user!r}; {remedy}") from error
    for path in (folder, *folder.iterdir()):
        os.chown(path, found.pw_uid, found.pw_gid, follow_symlinks=False)


def _check_folder(folder: Path) -> None:
    """Check that a folder holds an agent's files alone: all in it is given to another user. Errors: `BadInput`."""
    try:
        other = sorted(path.name for path in folder.iterdir() if not path.name.startswith(AGENT_FILES))
    except FileNotFoundError:
        return
    except PermissionError as error:
        raise no_permission(folder, error) from error
    except OSError as error:
        raise BadInput(f"{folder}: cannot be read ({error.strerror})") from error
    if other:
        raise BadInput(f"{folder}: {other[0]!r} is no file of an agent; name a folder of its own by --folder")


def own_key(folder: Path, user: str = "") -> str:
    """Return an agent's public key, made if absent. Errors: `BadInput`, `Unwritten`."""
    _check_folder(folder)
    public = curve_pair(folder).public.decode()
    give(folder, user)
    return public


def rotate(database: Path, keys: Path, within_h: float = 24.0, now_s: float | None = None
           ) -> tuple[KeyRotation, JoinLine]:  # fmt: skip
    """Begin to rotate the manager's key, or give a rotation that is under way another time; return it, and the line
    that every agent joins by afterwards.

    within_h  hours after which the key changes

    Errors: `BadInput` for hours out of range, keys or the database; `Missing`, `Unwritten`.
    """
    check_number("within", within_h, 0, MOST_HOURS)
    now = time.time() if now_s is None else now_s
    with manager_store(database) as store:
        curve_pair(keys)
        public = curve_pair(keys, NEXT).public.decode()
        found = KeyRotation(public, int(now + within_h * 3600.0))
        store.put_facts({ROTATION: found.text})
    return found, JoinLine("", ManagerAddress("", public, bytes(signing_key(keys).verify_key).hex()))


def no_agents(database: Path) -> str:
    """Return the sentence for a database without agents."""
    none = "no agent is enrolled; let one connect: configtron learn manager enroll NAME --address tcp://HOST:PORT"
    return none + elsewhere(database, "learn manager agents", MANAGERS_DB)


def revoke(database: Path, name: str) -> bool:
    """Let an agent connect no more, from the manager's next reading of the list, within a second; whether it could."""
    with manager_store(database) as store:
        return store.revoke(name)


class AgentRow(NamedTuple):
    """An agent: `enrolled` or `revoked`; when it was heard last (UTC; "": never); the map it holds; its last NACK."""

    name: str
    state: str
    heard_at: str
    held: str
    driver: str
    refused: int
    waiting: int
    dropped: int
    skew_s: int
    reason: str


def agents(database: Path) -> list[AgentRow]:
    """Return every agent that was enrolled, with what the manager knows of it. Errors: `BadInput`."""
    with manager_store(database, read_only=True) as store:
        facts, rows = store.facts(), store.enrolled()
    states = agent_states(facts, database)
    found = []
    for row in rows:
        known: dict[str, Any] = states.get(row.name, {}) if not row.revoked_at else {}
        found.append(AgentRow(
            row.name, "revoked" if row.revoked_at else "enrolled", _when(known), known.get("held", ""),
            known.get("driver", ""), known.get("refused", 0), known.get("waiting", 0), known.get("dropped", 0),
            known.get("skew_s", 0), known.get("frozen", "") or known.get("reason", ""),
        ))  # fmt: skip
    return found


def _when(known: Mapping[str, Any]) -> str:
    heard_s = known.get("heard_s", 0)
    return datetime.fromtimestamp(heard_s, UTC).isoformat() if heard_s else ""


def maps(database: Path) -> list[MapRow]:
    """Return every map that was published, oldest first."""
    with manager_store(database, read_only=True) as store:
        return store.maps()


def map_rows(database: Path) -> list[dict[str, Json]]:
    """Return `maps` as rows."""
    return [{"map": f"{row.term}.{row.version}", "made_at": row.made_at, "why": row.why, "prefixes": row.prefixes,
             "whole": bool(row.whole)} for row in maps(database)]  # fmt: skip


def roll_back(database: Path, wanted: str = "") -> str:
    """Ask the manager for an earlier map, "TERM.VERSION", and to make no new ones; "": the one before the current.

    Returns which. It is published by the running manager within a second. Errors: `BadInput` for one not kept whole.
    """
    with manager_store(database) as store:
        whole = [f"{row.term}.{row.version}" for row in store.maps() if row.whole]
        made = [row for row in store.maps() if row.why == "made"]
        earlier = next((f"{row.term}.{row.version}" for row in reversed(made[:-1]) if row.whole), "")
        chosen = wanted or earlier
        if chosen not in whole:
            kept = ", ".join(whole[-5:]) or "none"
            raise BadInput(f"map {chosen or '(earlier)'} is not kept; there is: {kept} (configtron learn manager maps)")
        store.put_facts({ROLLBACK: chosen, PAUSED: "1"})
    return chosen


def resume(database: Path) -> bool:
    """Let the manager make new maps again; whether it did not."""
    with manager_store(database) as store:
        return store.drop_fact(PAUSED)
