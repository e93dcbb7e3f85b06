# SPDX-License-Identifier: MIT
"""A connection to the scheduler of a Dask cluster.

Dask runs what its clients send: a program that reaches the scheduler owns the workers. So the connection is TLS, with
the certificates of Dask's own configuration (`distributed.comm.tls`); a scheduler of this host may be reached without.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from configtron.model.errors import INTERRUPTED, BadInput, ConfigtronError, Missing

# A scheduler that does not answer by then is not there.
PATIENCE_S = 20.0
SECURE, PLAIN = "tls", "tcp"
SETTINGS = (
    "set distributed.comm.tls (ca-file, client.cert, client.key) in ~/.config/dask, or by"
    " DASK_DISTRIBUTED__COMM__TLS__CA_FILE and so on"
)


def check_address(address: str, *, plain_here: bool = False) -> None:
    """Refuse an address that is not reached by TLS. plain_here: allow tcp:// to this host. Errors: `BadInput`."""
    # urlsplit drops line ends, and a message must not have any
    if not address.isprintable():
        raise BadInput(f"--cluster {address!r}: no address of a scheduler; name it as tls://HOST:8786")
    try:
        parts = urlsplit(address)
        port = parts.port
    except ValueError as error:
        raise BadInput(f"--cluster {address}: {error}; name it as tls://HOST:8786") from error
    if not (parts.hostname and port and parts.scheme in (SECURE, PLAIN)):
        raise BadInput(f"--cluster {address}: no address of a scheduler; name it as tls://HOST:8786")
    if parts.scheme == PLAIN and not (plain_here and _is_here(parts.hostname)):
        raise BadInput(
            f"--cluster {address}: name it as tls://HOST:8786; without TLS anyone may run code on its workers"
        )


def _is_here(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class SchedulerLost(ConfigtronError):
    """The scheduler of a cluster does not answer any more; what is stored stays."""

    code = INTERRUPTED


@contextmanager
def scheduler_answers(address: str) -> Iterator[None]:
    """Turn the ways in which Dask reports a lost scheduler into `SchedulerLost`."""
    try:
        yield
    except (OSError, RuntimeError) as error:
        why = " ".join(f"{type(error).__name__}: {error}".split())
        raise SchedulerLost(f"--cluster {address}: the scheduler is lost ({why})") from error


def check_certificates(address: str) -> None:
    """Read the certificates that an address needs, before a scheduler is there. Errors: `BadInput`, `Missing`."""
    _tls_settings(address)


def _dask() -> Any:
    try:
        return import_module("distributed")
    except ImportError as error:
        raise Missing("--cluster needs the package distributed; run: pip install 'configtron[dask]'") from error


def _tls_settings(address: str) -> Any:
    """Return Dask's TLS settings, whose files can be read and belong together; None for an address without TLS."""
    dask = _dask()
    if not address.startswith(f"{SECURE}:"):
        return None
    try:
        found = dask.Security(require_encryption=True)
        for file in (found.tls_ca_file, found.tls_client_cert, found.tls_client_key):
            # a setting may also be the certificate's own text
            if file and "\n" not in file:
                # else the error would not name the file
                Path(file).open("rb").close()
        if found.get_connection_args("client")["ssl_context"] is None:
            raise ValueError("there is no certificate")
    except (OSError, ValueError, TypeError) as error:
        named = isinstance(error, OSError) and error.filename
        why = f"{error.filename}: {error.strerror}" if named else " ".join(str(error).split())
        raise BadInput(f"--cluster {address}: the certificates cannot be used ({why}); {SETTINGS}") from error
    return found


def dask_client(address: str, patience_s: float = PATIENCE_S) -> Any:
    """Return a client. Errors: `Missing` without the package; `BadInput` where certificates cannot be used or no
    scheduler answers."""
    dask, security = _dask(), _tls_settings(address)
    try:
        return dask.Client(address, timeout=patience_s, security=security, set_as_default=False)
    except (OSError, ValueError, TypeError, RuntimeError) as error:
        why, remedy = " ".join(str(error).split()), SETTINGS if security else "start one: dask scheduler"
        raise BadInput(f"--cluster {address}: no scheduler answers ({why}); {remedy}") from error


class LiveWorkers:
    """The workers of a cluster, asked of its scheduler each time."""

    def __init__(self, client: Any, address: str) -> None:
        self._client, self._address, self._scheduler = client, address, ""

    def now(self) -> dict[str, dict[str, Any]]:
        """Return what is known of each worker, by address. Errors: `SchedulerLost`, also if another one answers."""
        with scheduler_answers(self._address):
            # all of them: some versions of Dask name five unless they are asked for more
            found = self._client.scheduler_info(n_workers=-1)
            if not found:
                raise RuntimeError("it does not answer")
            self._scheduler = self._scheduler or found["id"]
            # Dask connects again by itself; a new scheduler knows neither our tasks nor that we listen
            if found["id"] != self._scheduler:
                raise RuntimeError("another one stands in its place")
        workers: dict[str, dict[str, Any]] = found["workers"]
        return workers
