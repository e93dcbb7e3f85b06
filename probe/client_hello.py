# SPDX-License-Identifier: MIT
"""ClientHellos made by hand (RFC 8446 4.1.2), the same bytes in each run: one for a version, one for a certificate.

Why not a library: libraries of today are built without the ciphers of yesterday, so that a refusal would be theirs;
and their hellos are fresh in each run. These can be compared in a replay. Their handshake is never finished, so nothing
secret depends on them: random bytes and key shares are constants.

Source: RFC 8446 4.1.2, 4.2; RFC 5246 7.4.1.2; RFC 8422 5.1; RFC 5746 3.3; IANA "TLS Cipher Suites" and "TLS
ExtensionType Values".
"""

from __future__ import annotations

from hashlib import sha256
from ipaddress import ip_address

# Names of the versions -> their number on the wire, oldest first.
VERSIONS = {"1.0": 0x0301, "1.1": 0x0302, "1.2": 0x0303, "1.3": 0x0304}
# The suites that a server can choose in each version, the strongest first; only old servers choose the last (3DES,
# RC4).
SUITES_13 = (0x1301, 0x1302, 0x1303)
SUITES_12 = (0xC02B, 0xC02F, 0xC02C, 0xC030, 0xCCA9, 0xCCA8, 0x009E, 0x009F, 0x009C, 0x009D, 0xC023, 0xC027, 0x003C)
SUITES_10 = (0xC009, 0xC013, 0xC00A, 0xC014, 0x0033, 0x0039, 0x002F, 0x0035, 0xC008, 0xC012, 0x000A, 0xC007, 0xC011)
SUITES_RC4 = (0x0005, 0x0004)
# TLS 1.3's three, then TLS 1.2's with forward secrecy and without: all but the oldest servers choose one.
SUITES_COMMON = (*SUITES_13, *SUITES_12[:6], 0xC013, 0xC014, 0x009C, 0x009D, 0x002F, 0x0035)
# RFC 5746 3.3: "I know of secure renegotiation" as a cipher suite, which any server can read.
RENEGOTIATION_SCSV = 0x00FF
X25519, SECP256R1, SECP384R1, SECP521R1 = 0x001D, 0x0017, 0x0018, 0x0019
# ECDSA, RSA-PSS and RSA with SHA-2, then SHA-1, which servers of the first TLS 1.2 years still sign with.
SIGNATURES = (0x0403, 0x0503, 0x0603, 0x0804, 0x0805, 0x0806, 0x0401, 0x0501, 0x0601, 0x0203, 0x0201)
# A key share each for two groups, so that no server asks for another one. Their secret is known (1): the generators of
# x25519 (RFC 7748 4.1) and of secp256r1 (SEC 2 2.4.2).
X25519_BASE = bytes([9]) + bytes(31)
P256_BASE = bytes.fromhex(
    "046b17d1f2e12c4247f8bce6e563a440f277037d812deb33a0f4a13945d898c296"
    "4fe342e2fe1a7f9b8ee7eb4a7c0f9e162bce33576b315ececbb6406837bf51f5"
)
# Extension numbers.
SERVER_NAME, STATUS_REQUEST, GROUPS, POINT_FORMATS, SIGNATURE_ALGORITHMS, ALPN, MASTER_SECRET = 0, 5, 10, 11, 13, 16, 23
SUPPORTED_VERSIONS, PSK_MODES, KEY_SHARE = 43, 45, 51


def client_hello(host: str, most: str) -> bytes:
    """Return a record with a ClientHello that offers no version above `most` (a key of `VERSIONS`)."""
    version = VERSIONS[most]
    suites = (SUITES_13 if most == "1.3" else ()) + (SUITES_12 if version >= VERSIONS["1.2"] else ())
    suites += SUITES_10 + SUITES_RC4 + (RENEGOTIATION_SCSV,)
    # The random bytes depend on the server and the version alone: fresh for each server, the same in each run.
    chance = sha256(f"{host} {most}".encode()).digest()
    extensions = [] if _is_address(host) else [_server_name(host.encode("ascii", "ignore"))]
    extensions += [
        (GROUPS, _counted(_numbers((X25519, SECP256R1, SECP384R1, SECP521R1)), 2)),
        (POINT_FORMATS, b"\x01\x00"),
        (MASTER_SECRET, b""),
    ]
    if version >= VERSIONS["1.2"]:
        extensions.append((SIGNATURE_ALGORITHMS, _counted(_numbers(SIGNATURES), 2)))
    if version >= VERSIONS["1.3"]:
        extensions.append((SUPPORTED_VERSIONS, _counted(_numbers(tuple(reversed(VERSIONS.values()))), 1)))
        extensions += [(KEY_SHARE, _key_shares()), (PSK_MODES, b"\x01\x01")]
    return _record(min(version, VERSIONS["1.2"]), chance, chance, suites, extensions)


def certificate_hello(host: str, alpn: tuple[str, ...] = ("h2", "http/1.1")) -> bytes:
    """Return a record with a ClientHello that makes a server send its certificate, in TLS 1.3 or 1.2.

    OCSP stapling is offered, which makes the answer longer; compressed certificates and resumption, which would make it
    shorter, are not. `host` "" sends no server name (RFC 6066 section 3: an address is none).
    """
    extensions = [_server_name(host.encode("ascii", "replace"))] if host else []
    extensions += [
        (STATUS_REQUEST, b"\x01" + bytes(4)),
        (GROUPS, _counted(_numbers((X25519, SECP256R1, SECP384R1)), 2)),
        (POINT_FORMATS, b"\x01\x00"),
        (SIGNATURE_ALGORITHMS, _counted(_numbers(SIGNATURES), 2)),
        (ALPN, _counted(b"".join(_counted(name.encode(), 1) for name in alpn), 2)),
        (SUPPORTED_VERSIONS, _counted(_numbers((VERSIONS["1.3"], VERSIONS["1.2"])), 1)),
        (PSK_MODES, b"\x01\x01"),
        (KEY_SHARE, _key_shares()),
    ]
    return _record(VERSIONS["1.2"], bytes(range(32)), b"", SUITES_COMMON, extensions)


def _record(
    version: int, chance: bytes, session: bytes, suites: tuple[int, ...], extensions: list[tuple[int, bytes]]
) -> bytes:
    body = version.to_bytes(2, "big") + chance + _counted(session, 1) + _counted(_numbers(suites), 2) + b"\x01\x00"
    body += _counted(b"".join(kind.to_bytes(2, "big") + _counted(value, 2) for kind, value in extensions), 2)
    handshake = b"\x01" + _counted(body, 3)
    # RFC 8446 5.1: the first record has version 0x0301, for the sake of old servers.
    return b"\x16\x03\x01" + _counted(handshake, 2)


def _server_name(host: bytes) -> tuple[int, bytes]:
    return SERVER_NAME, _counted(b"\x00" + _counted(host, 2), 2)


def _key_shares() -> bytes:
    shares = ((X25519, X25519_BASE), (SECP256R1, P256_BASE))
    return _counted(b"".join(group.to_bytes(2, "big") + _counted(share, 2) for group, share in shares), 2)


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def _counted(data: bytes, width: int) -> bytes:
    return len(data).to_bytes(width, "big") + data


def _numbers(numbers: tuple[int, ...]) -> bytes:
    return b"".join(n.to_bytes(2, "big") for n in numbers)
