# SPDX-License-Identifier: MIT
"""A ClientHello (RFC 8446 4.1.2), the same bytes each time: enough to make a server send its certificate.

It is never followed by a Finished, so nothing secret depends on it: the random bytes and the key shares are constants.
Both TLS 1.3 and 1.2 are offered, so that all but the oldest servers answer; OCSP stapling is asked for, which fattens
the answer; compressed certificates and resumption, which would thin it, are not.
"""

from __future__ import annotations

# Groups (RFC 8446 4.2.7) with a key share each, so that no server asks for another one: the curve's own base point
# (RFC 7748 4.1; SEC 2 2.4.2), the public key of the secret number 1, is as good as any.
X25519, SECP256R1, SECP384R1 = 0x001D, 0x0017, 0x0018
BASE_X25519 = bytes([9]) + bytes(31)
BASE_P256 = bytes.fromhex(
    "046b17d1f2e12c4247f8bce6e563a440f277037d812deb33a0f4a13945d898c296"
    "4fe342e2fe1a7f9b8ee7eb4a7c0f9e162bce33576b315ececbb6406837bf51f5"
)
# TLS 1.3's three, then TLS 1.2's with forward secrecy and without (IANA "TLS Cipher Suites").
CIPHERS = (
    0x1301, 0x1302, 0x1303, 0xC02B, 0xC02F, 0xC02C, 0xC030,
    0xCCA9, 0xCCA8, 0xC013, 0xC014, 0x009C, 0x009D, 0x002F, 0x0035,
)  # fmt: skip
# ECDSA, RSA-PSS and RSA with SHA-256 to SHA-512, and SHA-1 for the old (RFC 8446 4.2.3).
SIGNATURES = (0x0403, 0x0503, 0x0603, 0x0804, 0x0805, 0x0806, 0x0401, 0x0501, 0x0601, 0x0203, 0x0201)
# Extension numbers (IANA "TLS ExtensionType Values").
SERVER_NAME, STATUS_REQUEST, GROUPS, POINT_FORMATS, SIGNATURE_ALGORITHMS, ALPN = 0, 5, 10, 11, 13, 16
SUPPORTED_VERSIONS, PSK_MODES, KEY_SHARE = 43, 45, 51
TLS13, TLS12 = 0x0304, 0x0303


def hello(host: str, alpn: tuple[str, ...] = ("h2", "http/1.1")) -> bytes:
    """The record. `host` "" sends no server name (RFC 6066 section 3: an address is none)."""
    shares = _sized(_number(X25519) + _sized(BASE_X25519) + _number(SECP256R1) + _sized(BASE_P256))
    versions = _list((TLS13, TLS12))
    extensions = [
        (STATUS_REQUEST, b"\x01" + bytes(4)),
        (GROUPS, _sized(_list((X25519, SECP256R1, SECP384R1)))),
        (POINT_FORMATS, b"\x01\x00"),
        (SIGNATURE_ALGORITHMS, _sized(_list(SIGNATURES))),
        (ALPN, _sized(b"".join(bytes([len(name)]) + name.encode() for name in alpn))),
        (SUPPORTED_VERSIONS, bytes([len(versions)]) + versions),
        (PSK_MODES, b"\x01\x01"),
        (KEY_SHARE, shares),
    ]
    if host:
        extensions.insert(0, (SERVER_NAME, _sized(b"\x00" + _sized(host.encode("ascii", "replace")))))
    body = _number(TLS12) + bytes(range(32)) + b"\x00" + _sized(_list(CIPHERS)) + b"\x01\x00"
    body += _sized(b"".join(_number(kind) + _sized(value) for kind, value in extensions))
    handshake = b"\x01" + len(body).to_bytes(3, "big") + body
    return b"\x16\x03\x01" + _sized(handshake)


def _number(value: int) -> bytes:
    return value.to_bytes(2, "big")


def _list(values: tuple[int, ...]) -> bytes:
    return b"".join(_number(value) for value in values)


def _sized(value: bytes) -> bytes:
    return _number(len(value)) + value
