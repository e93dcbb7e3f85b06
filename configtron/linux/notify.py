# SPDX-License-Identifier: MIT
"""Report to systemd that a service is ready (Type=notify).

Source     sd_notify(3): the datagram `READY=1` to the socket that NOTIFY_SOCKET names; `@` begins an abstract name
"""

from __future__ import annotations

import os
import socket
from contextlib import suppress


def ready() -> None:
    """Report that this process is ready; do nothing where no service manager asked for it."""
    place = os.environ.get("NOTIFY_SOCKET", "")
    # A manager that has gone needs no report.
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        if place:
            sender.sendto(b"READY=1", "\0" + place[1:] if place.startswith("@") else place)
