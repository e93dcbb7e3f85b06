# SPDX-License-Identifier: MIT
"""A connection to the scheduler of a Dask cluster.

Workers run any code that a client of the scheduler sends. So the connection uses TLS, with the certificates of Dask's
configuration (`distributed.comm.tls`). Some callers allow TCP without TLS to a scheduler on this host.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from configtron.model.errors import INTERRUPTED, BadInput, ConfigtronError, Missing

# A scheduler that does not answer within this time counts as absent.
CONNECT_TIMEOUT_S = 20.0
TLS, TCP = "tls", "tcp"
HOW_TO_SET = (
    "set distributed.comm.tls (ca-file, client.cert, client.key) in ~/.config/dask, or by"
    " DASK_DISTRIBUTED__COMM__TLS__CA_FILE and so on"
)


def check_address(address: str, *, allow_local_tcp: bool = False) -> None:
    """Check that an address names TLS. allow_local_tcp: or tcp:// to this host. Errors: `BadInput`."""
    # urlsplit removes line ends, which an error of one line cannot show
    if not address.isprintable():
        raise BadInput(f"--cluster {address!r}: no address of a scheduler; name it as tls://HOST:8786")
    try:
        parts = urlsplit(address)
        port = parts.port
    except ValueError as error:
        raise BadInput(f"--cluster {address}: {error}; name it as tls://HOST:8786") from error
    if not (parts.hostname and port and parts.scheme in (TLS, TCP)):
        raise BadInput(f"--cluster {address}: no address of a scheduler; name it as tls://HOST:8786")
    if parts.scheme == TCP and not (allow_local_tcp and _is_loopback(parts.hostname)):
        raise BadInput(
            f"--cluster {address}: name it as tls://HOST:8786; without TLS anyone may run code on its workers"
        )


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class SchedulerLost(ConfigtronError):
    """The scheduler of a cluster no longer answers. What is stored stays stored."""

    code = INTERRUPTED


@contextmanager
def scheduler_errors(address: str) -> Iterator[None]:
    """Raise `SchedulerLost` in place of the errors by which Dask reports that the scheduler does not answer."""
    try:
        yield
    except (OSError, RuntimeError) as error:
        why = " ".join(f"{type(error).__name__}: {error}".split())
        raise SchedulerLost(f"--cluster {address}: the scheduler is lost ({why})") from error


def check_certificates(address: str) -> None:
    """Check the certificates that a connection to an address needs; do not connect. Errors: `BadInput`, `Missing`."""
    _tls_settings(address)


def _dask() -> Any:
    try:
        return import_module("distributed")
    except ImportError as error:
        raise Missing("--cluster needs the package distributed; run: pip install 'configtron[dask]'") from error


def _tls_settings(address: str) -> Any:
    """Return Dask's TLS settings, whose files can be read and belong together; None for an address without TLS."""
    dask = _dask()
    if not address.startswith(f"{TLS}:"):
        return None
    try:
        found = dask.Security(require_encryption=True)
        for file in (found.tls_ca_file, found.tls_client_cert, found.tls_client_key):
            # a setting with line ends is a certificate, not the path of one
            if file and "\n" not in file:
                # the error of `ssl` would not name the file
                Path(file).open("rb").close()
        if found.get_connection_args("client")["ssl_context"] is None:
            raise ValueError("there is no certificate")
    except (OSError, ValueError, TypeError) as error:
        why = " ".join(str(error).split())
        if isinstance(error, OSError) and error.filename:
            why = f"{error.filename}: {error.strerror}"
        raise BadInput(f"--cluster {address}: the certificates cannot be used ({why}); {HOW_TO_SET}") from error
    return found


def connect(address: str, timeout_s: float = CONNECT_TIMEOUT_S) -> Any:
    """Return a client. Errors: `Missing` without the package; `BadInput` where certificates cannot be used or no
    scheduler answers."""
    dask, security = _dask(), _tls_settings(address)
    try:
        asyncio.run(asyncio.wait_for(_identify(dask, address, security, timeout_s), timeout_s))
        return dask.Client(address, timeout=timeout_s, security=security, set_as_default=False)
    # `MemoryError`: Dask reads the first bytes of another protocol as a size
    except (OSError, ValueError, TypeError, RuntimeError, MemoryError) as error:
        why = " ".join(str(error).split()) or f"nothing that Dask understands within {timeout_s:g} s"
        remedy = HOW_TO_SET if security else "start one: dask scheduler"
        raise BadInput(f"--cluster {address}: no scheduler answers ({why}); {remedy}") from error


async def _identify(dask: Any, address: str, security: Any, timeout_s: float) -> None:
    """Ask the program at an address to identify itself. A client of Dask waits for ever for a program that accepts
    connections and is no scheduler."""
    arguments = security.get_connection_args("client") if security else {}
    async with dask.rpc(address, timeout=timeout_s, connection_args=arguments) as scheduler:
        await scheduler.identity()


class LiveWorkers:
    """The workers that the scheduler of a cluster has; each call asks the scheduler."""

    def __init__(self, client: Any, address: str) -> None:
        self._client, self._address, self._scheduler_id = client, address, ""

    def by_address(self) -> dict[str, dict[str, Any]]:
        """Return what the scheduler reports of each worker. Errors: `SchedulerLost`, also if another one answers."""
        with scheduler_errors(self._address):
            # -1 is all: some versions of Dask report five workers by default
            found = self._client.scheduler_info(n_workers=-1)
            if not found:
                raise RuntimeError("it does not answer")
            self._scheduler_id = self._scheduler_id or found["id"]
            # Dask reconnects by itself; a new scheduler has neither our tasks nor our subscription
            if found["id"] != self._scheduler_id:
                raise RuntimeError("another one stands in its place")
        workers: dict[str, dict[str, Any]] = found["workers"]
        return workers
