# SPDX-License-Identifier: MIT
"""A ClientHello made by hand, whose highest version we choose.

Why not a library: libraries of today are built without the ciphers of yesterday, so that a refusal would be theirs;
and their hellos are fresh in each run. This one is the same bytes each time, which a replay can compare, and it asks
for a version only: the handshake is never finished, so nothing in it has to be secret. Source: RFC 8446 4.1.2, 4.2;
RFC 5246 7.4.1.2; RFC 8422 5.1; RFC 5746 3.3.
"""

from __future__ import annotations

from hashlib import sha256
from ipaddress import ip_address

# Names of the versions -> their number on the wire, oldest first.
VERSIONS = {"1.0": 0x0301, "1.1": 0x0302, "1.2": 0x0303, "1.3": 0x0304}
# What each version can be answered with, the strongest first; the last rows (3DES, RC4) only old servers choose.
SUITES_13 = (0x1301, 0x1302, 0x1303)
SUITES_12 = (0xC02B, 0xC02F, 0xC02C, 0xC030, 0xCCA9, 0xCCA8, 0x009E, 0x009F, 0x009C, 0x009D, 0xC023, 0xC027, 0x003C)
SUITES_10 = (0xC009, 0xC013, 0xC00A, 0xC014, 0x0033, 0x0039, 0x002F, 0x0035, 0xC008, 0xC012, 0x000A, 0xC007, 0xC011)
SUITES_RC4 = (0x0005, 0x0004)
# RFC 5746 3.3: "I know of secure renegotiation", said as a cipher suite, which any server can read.
RENEGOTIATION_SCSV = 0x00FF
# x25519, secp256r1, secp384r1, secp521r1.
GROUPS = (0x001D, 0x0017, 0x0018, 0x0019)
# ECDSA, RSA-PSS and RSA with SHA-2, then SHA-1, which servers of the first TLS 1.2 years still sign with.
SIGNATURES = (0x0403, 0x0503, 0x0603, 0x0804, 0x0805, 0x0806, 0x0401, 0x0501, 0x0601, 0x0203, 0x0201)
# Key shares whose secret everybody knows (1): the generators of x25519 (RFC 7748 4.1) and of secp256r1 (SEC 2 2.4.2).
X25519_BASE = bytes([9]) + bytes(31)
P256_BASE = bytes.fromhex(
    "046b17d1f2e12c4247f8bce6e563a440f277037d812deb33a0f4a13945d898c296"
    "4fe342e2fe1a7f9b8ee7eb4a7c0f9e162bce33576b315ececbb6406837bf51f5"
)


def client_hello(host: str, most: str) -> bytes:
    """One TLS record: a ClientHello that offers no version above `most` (a key of `VERSIONS`)."""
    version = VERSIONS[most]
    suites = (SUITES_13 if most == "1.3" else ()) + (SUITES_12 if version >= VERSIONS["1.2"] else ())
    suites += SUITES_10 + SUITES_RC4 + (RENEGOTIATION_SCSV,)
    # What looks random says whom we asked and for what: fresh for each server, the same in each run.
    chance = sha256(f"{host} {most}".encode()).digest()
    body = min(version, VERSIONS["1.2"]).to_bytes(2, "big") + chance + _counted(chance, 1)
    body += _counted(_numbers(suites), 2) + b"\x01\x00" + _counted(_extensions(host, version), 2)
    handshake = b"\x01" + _counted(body, 3)
    # RFC 8446 5.1: the first record says 0x0301, for the sake of old servers.
    return b"\x16\x03\x01" + _counted(handshake, 2)


def _extensions(host: str, version: int) -> bytes:
    out = b""
    if not _is_address(host):
        out += _extension(0, _counted(b"\x00" + _counted(host.encode("ascii", "ignore"), 2), 2))
    out += _extension(10, _counted(_numbers(GROUPS), 2)) + _extension(11, b"\x01\x00") + _extension(23, b"")
    if version >= VERSIONS["1.2"]:
        out += _extension(13, _counted(_numbers(SIGNATURES), 2))
    if version >= VERSIONS["1.3"]:
        shares = b"\x00\x1d" + _counted(X25519_BASE, 2) + b"\x00\x17" + _counted(P256_BASE, 2)
        out += _extension(43, _counted(_numbers(tuple(reversed(VERSIONS.values()))), 1))
        out += _extension(51, _counted(shares, 2)) + _extension(45, b"\x01\x01")
    return out


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def _extension(kind: int, body: bytes) -> bytes:
    return kind.to_bytes(2, "big") + _counted(body, 2)


def _counted(data: bytes, width: int) -> bytes:
    return len(data).to_bytes(width, "big") + data


def _numbers(numbers: tuple[int, ...]) -> bytes:
    return b"".join(n.to_bytes(2, "big") for n in numbers)
