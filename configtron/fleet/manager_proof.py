# SPDX-License-Identifier: MIT
"""What a manager says about itself, signed by the fleet's key: its name, its term, and when it began.

Agents keep it, and show it to any other manager that they do not obey. All managers of a fleet sign by one key, the
one that signs maps; so a manager checks another's words whoever brings them.

Source     RFC 8032 (Ed25519); PyNaCl
"""

from __future__ import annotations

from nacl.exceptions import CryptoError
from nacl.signing import SigningKey, VerifyKey


def proof_of(manager: str, term: int, begun_ns: int, key: SigningKey) -> str:
    """Return a manager's proof: when it began (ns since 1970), and the signature (hex)."""
    return f"{begun_ns} {key.sign(_signed(manager, term, str(begun_ns))).signature.hex()}"


def is_proven(manager: str, term: int, proof: str, key: VerifyKey) -> bool:
    """Return whether that manager of that term wrote the proof."""
    begun_ns, _, signature = proof.partition(" ")
    try:
        key.verify(_signed(manager, term, begun_ns), bytes.fromhex(signature))
    except (CryptoError, ValueError):
        return False
    return True


def _signed(manager: str, term: int, begun_ns: str) -> bytes:
    # A head of a map is MessagePack's array, which begins with another byte.
    return f"configtron manager {term} {begun_ns} {manager}".encode()
