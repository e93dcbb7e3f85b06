# SPDX-License-Identifier: MIT
"""What a manager says about itself, signed by the fleet's key: its name, its term, and when it began.

Agents keep the proof of the manager that they obey, and send it in each hello. All managers of a fleet sign by one key,
which also signs maps. So each can check another's proof, whoever shows it.

Source     RFC 8032 (Ed25519); PyNaCl
"""

from __future__ import annotations

from nacl.exceptions import CryptoError
from nacl.signing import SigningKey, VerifyKey


def proof_of(manager: str, term: int, begun_ns: int, key: SigningKey) -> str:
    """Return a manager's proof: when it began (ns since 1970), and the signature (hex)."""
    return f"{begun_ns} {key.sign(_claim(manager, term, str(begun_ns))).signature.hex()}"


def is_proven(manager: str, term: int, proof: str, key: VerifyKey) -> bool:
    """Return whether the fleet's key signed this proof (as `proof_of` returns it) for that manager and term."""
    begun_ns, _, signature = proof.partition(" ")
    try:
        key.verify(_claim(manager, term, begun_ns), bytes.fromhex(signature))
    except (CryptoError, ValueError):
        return False
    return True


def _claim(manager: str, term: int, begun_ns: str) -> bytes:
    # The head of a map cannot pass for a claim: it is a MessagePack array and never begins with a "c".
    return f"configtron manager {term} {begun_ns} {manager}".encode()
