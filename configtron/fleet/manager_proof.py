# SPDX-License-Identifier: MIT
"""What a manager says about itself, signed by the fleet's key: its name and its term.

Agents keep the proof of the manager that they obey, and send it in each hello. All managers of a fleet sign by one key,
which also signs maps. So each can check another's proof, whoever shows it.

Source     RFC 8032 (Ed25519); PyNaCl
"""

from __future__ import annotations

from nacl.exceptions import CryptoError
from nacl.signing import SigningKey, VerifyKey


def proof_of(manager: str, term: int, key: SigningKey) -> str:
    """Return a manager's proof: the signature (hex)."""
    return key.sign(_claim(manager, term)).signature.hex()


def is_proven(manager: str, term: int, proof: str, key: VerifyKey) -> bool:
    """Return whether the fleet's key signed this proof (as `proof_of` returns it) for that manager and term."""
    try:
        key.verify(_claim(manager, term), bytes.fromhex(proof))
    except (CryptoError, ValueError):
        return False
    return True


def _claim(manager: str, term: int) -> bytes:
    # The head of a map cannot pass for a claim: it is a MessagePack array and never begins with a "c".
    return f"configtron manager {term} {manager}".encode()
