# SPDX-License-Identifier: MIT
"""Ports of a loopback address that no other process of this machine uses: 127.0.0.0/8 has one for each."""

from __future__ import annotations

import os
import socket


def own_address() -> str:
    """Return the loopback address of this process number."""
    number = os.getpid()
    return f"127.{64 + (number >> 16) % 64}.{(number >> 8) % 256}.{number % 254 + 1}"


def free_endpoint() -> str:
    """Return an endpoint of two ports in a row that are free now, for a manager: on 127.0.0.1 another test may take the
    second one before it is bound."""
    host = own_address()
    for _ in range(100):
        with socket.socket() as one, socket.socket() as two:
            one.bind((host, 0))
            port = one.getsockname()[1]
            try:
                two.bind((host, port + 1))
            except (OSError, OverflowError):
                continue
            return f"tcp://{host}:{port}"
    raise AssertionError("no two ports in a row are free")
