# SPDX-License-Identifier: MIT
"""Keys on disk: CURVE pairs of managers and agents, and the key that signs maps. Files of mode 0600.

FOLDER/curve.key      public and secret key of ZeroMQ's CURVE, Z85, one a line
FOLDER/next.key       the manager's: the pair that follows, while keys are rotated
FOLDER/signing.key    the manager's Ed25519 seed, hexadecimal
FOLDER/manager.json   an agent's: where its manager is, and its two public keys
"""

from __future__ import annotations

import json
import os
import re
import struct
import tempfile
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import zmq
from nacl.signing import SigningKey, VerifyKey
from zmq.utils import z85

from configtron.model.errors import BadInput, no_permission, path_errors

CURVE, NEXT, SIGNING, MANAGER = "curve.key", "next.key", "signing.key", "manager.json"
FOLDER = 0o700
# Characters of a key of 32 bytes as Z85 (ZeroMQ RFC 32), and as hexadecimal.
Z85_LENGTH, HEX_LENGTH = 40, 64
# Of endpoints that libzmq takes: tcp://HOST:PORT, HOST a name, an address, an interface or *.
HOST, PORT = re.compile(r"[A-Za-z0-9_.:%;*\[\]-]+"), re.compile(r"[0-9]{1,5}")


@dataclass(frozen=True)
class CurvePair:
    """A public and a secret key, Z85."""

    public: bytes
    secret: bytes

    def __repr__(self) -> str:
        return f"CurvePair({self.public.decode()})"


@dataclass(frozen=True)
class ManagerAddress:
    """What an agent knows of its manager: endpoint, CURVE public key (Z85), and the key that verifies maps (hex).

    endpoint  tcp://HOST:PORT; "": the one that the agent has already
    """

    endpoint: str
    curve: str
    signing: str

    def __post_init__(self) -> None:
        host, _, port = self.endpoint.removeprefix("tcp://").rpartition(":")
        fits = self.endpoint.startswith("tcp://") and HOST.fullmatch(host) and PORT.fullmatch(port)
        if self.endpoint and not (fits and 0 < int(port) < 65_536):
            raise BadInput(f"{self.endpoint!r} is no endpoint of a manager; write tcp://HOST:PORT")
        if not is_curve_key(self.curve) or len(self.signing) != HEX_LENGTH:
            raise BadInput("the manager's keys are cut short; copy the whole line that `enroll` printed")

    @property
    def verify_key(self) -> VerifyKey:
        """Return the key that verifies maps. Errors: `BadInput`."""
        try:
            return VerifyKey(bytes.fromhex(self.signing))
        except ValueError as error:
            raise BadInput("the manager's signing key is no key; copy the line that `enroll` printed") from error


def is_curve_key(text: str) -> bool:
    """Return whether a text is 32 bytes as Z85."""
    try:
        return len(text) == Z85_LENGTH and len(z85.decode(text.encode()) or b"") == HEX_LENGTH // 2
    except (ValueError, KeyError, struct.error):
        return False


def curve_pair(folder: Path, name: str = CURVE) -> CurvePair:
    """Return the CURVE pair of a folder, made if absent. Errors: `BadInput`, `Missing`, `Unwritten`."""
    path = folder / name
    if not _is_there(path):
        public, secret = zmq.curve_keypair()
        _put(path, f"{public.decode()}\n{secret.decode()}\n", keep=True)
    lines = _read(path).split()
    if [is_curve_key(line) for line in lines] != [True] * 2 or zmq.curve_public(lines[1].encode()) != lines[0].encode():
        raise BadInput(f"{path}: not a pair of keys; move it away, and enroll this host anew")
    return CurvePair(lines[0].encode(), lines[1].encode())


def signing_key(folder: Path) -> SigningKey:
    """Return the key that signs maps, made if absent. Errors: `BadInput`, `Missing`, `Unwritten`."""
    path = folder / SIGNING
    if not _is_there(path):
        _put(path, bytes(SigningKey.generate()).hex() + "\n", keep=True)
    try:
        return SigningKey(bytes.fromhex(_read(path).strip()))
    except ValueError as error:
        raise BadInput(f"{path}: not a signing key; restore it, or enroll every agent anew") from error


def manager_address(folder: Path) -> ManagerAddress:
    """Return where an agent's manager is. Errors: `BadInput`, `Missing`."""
    path = folder / MANAGER
    if not _is_there(path):
        line = "configtron tune agent --join 'LINE', with the line that `learn manager enroll` printed"
        raise BadInput(f"{path}: this host has not joined a manager; run: {line}")
    try:
        form = json.loads(_read(path))
        if not form["endpoint"]:
            raise ValueError("no endpoint")
        return ManagerAddress(str(form["endpoint"]), str(form["curve"]), str(form["signing"]))
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise BadInput(f"{path}: not a manager's address ({error}); join anew") from error


def write_manager_address(folder: Path, address: ManagerAddress) -> None:
    """Keep where an agent's manager is. Errors: `BadInput`, `Missing`, `Unwritten`."""
    _put(folder / MANAGER, json.dumps(asdict(address)) + "\n", keep=False)


def put_next_pair(folder: Path, public: str) -> bool:
    """Put the pair that follows, of this public key, in the place of the present one; whether that is the pair now.

    Errors: `BadInput`, `Missing`, `Unwritten`.
    """
    if _is_there(folder / NEXT) and curve_pair(folder, NEXT).public.decode() == public:
        with path_errors(folder / CURVE):
            (folder / NEXT).replace(folder / CURVE)
    return curve_pair(folder).public.decode() == public


def write_curve_pair(folder: Path, pair: CurvePair) -> None:
    """Keep a pair that was made elsewhere. Errors: `BadInput` where there is another one; `Unwritten`."""
    if _is_there(folder / CURVE) and curve_pair(folder) != pair:
        raise BadInput(f"{folder / CURVE}: this host has another key; move it away to join as another agent")
    _put(folder / CURVE, f"{pair.public.decode()}\n{pair.secret.decode()}\n", keep=False)


def public_key(secret: bytes) -> bytes:
    """Return the public key of a secret one. Errors: `BadInput`."""
    try:
        return zmq.curve_public(secret)
    except (ValueError, zmq.ZMQError) as error:
        raise BadInput("not a secret key; copy the whole line that `enroll` printed") from error


def _put(path: Path, text: str, *, keep: bool) -> None:
    """Write a file of mode 0600 as a whole. keep: one that is there, or that another process makes meanwhile, stays,
    and is the one that both read: a manager that starts, and `enroll`. Errors: as `cannot_write`."""
    with path_errors(path):
        path.parent.mkdir(mode=FOLDER, parents=True, exist_ok=True)
        # Mode 0600, and a name that no other process has.
        descriptor, name = tempfile.mkstemp(prefix=f"{path.name}.", dir=path.parent)
        new = Path(name)
        try:
            with open(descriptor, "w") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            if not keep:
                new.replace(path)
                return
            with suppress(FileExistsError):
                path.hardlink_to(new)
        finally:
            new.unlink(missing_ok=True)


def _is_there(path: Path) -> bool:
    try:
        return path.exists()
    except PermissionError as error:
        raise no_permission(path, error) from error


def _read(path: Path) -> str:
    try:
        if path.stat().st_mode & 0o077:
            raise BadInput(f"{path}: other users can read this key; run: chmod 600 {path}, and enroll anew if they did")
        return path.read_text()
    except PermissionError as error:
        raise no_permission(path, error) from error
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"{path}: cannot be read ({error})") from error
