"""The three protocols between pure code and the world. Pure code is handed one and never asks which."""

from __future__ import annotations

from typing import Protocol

from configtron.nouns import Context, Decision, Outcome, Packet, Profile, Segment


class Wire(Protocol):
    """One TCP flow of segments. Knows ports and initial sequence numbers, so nobody else has to."""

    def send(self, segment: Segment, tos: int = 0) -> Packet:
        """Put a segment on the wire, with that type of service; returns it as sent, with its time."""

    def receive(self, until: float) -> Packet | None:
        """The next packet heard, or None once `until` (seconds since the trace began) has passed."""


class Driver(Protocol):
    """One way to set the local stack. `apply` returns what `read` saw afterwards, not what was asked."""

    def settable(self) -> frozenset[str]:
        """Names of the knobs this driver can set here."""

    def apply(self, scope: str, profile: Profile) -> Profile:
        """Set, read back, return what was read."""

    def read(self, scope: str) -> Profile:
        """What is set now."""

    def revert(self, scope: str) -> None:
        """Put back what was there before the first apply."""


class Policy(Protocol):
    """One way to choose a profile. The simulator and the manager are two callers of it."""

    def choose(self, context: Context) -> Decision:
        """Pick a profile for a context."""

    def observe(self, outcome: Outcome) -> None:
        """Learn from what a decision led to."""
