"""(stub) A configuration (a point of CT's grid, `knobs.TUNABLE`) put in force on the servers' stack, and read back."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from configtron.lab.bed.network import Bed
from configtron.nouns import Profile, Value
from configtron.ports import Driver
from configtron.tuning import Place

# `configtron.tune.drivers.load`, handed in by the composition layer: edges do not import each other.
Loader = Callable[[str, Place], Driver]


class Stack:
    """The servers' stack. `per_prefix` names the driver for what is set by prefix: route, ebpf or kmod."""

    def __init__(self, bed: Bed, load: Loader, per_prefix: str = "route") -> None:
        raise NotImplementedError

    def apply(self, configuration: Profile, *, port: int = 0, cell: str = "") -> Mapping[str, Value]:
        """Put in force all settings but http_version (the client asks for that one, and its JSON proves it).

        port    where a server listens whose new connection is the witness; 0: a listener of the bed's own
        Returns knob -> value as read back, tcp_congestion_control and initcwnd from a new connection's own socket.
        Errors: `Mismatch` naming `cell` and knob, `BadInput` for what cannot be set.
        """
        raise NotImplementedError

    def revert(self) -> None:
        """Leave the stack as it was."""
        raise NotImplementedError
