# SPDX-License-Identifier: MIT
"""A Dask cluster on this host: a scheduler beside a web server, and workers in network namespaces as regions. Root.

The hub's namespace holds nginx behind every address of 198.19.0.0/17 and the scheduler; each region is a namespace of
its own with one link to the hub. Each worker has a cache folder, which stands for its machine's disk. All speak TLS by
one certificate that is made for it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from configtron.linux.netns import inside
from configtron.probe.wire.namespaces import ip
from tests.support.children import child
from tests.support.namespaces import throwaway
from tests.support.servers import SERVERS, running
from tests.support.waiting import until

# Addresses for benchmarks between devices of one's own (RFC 2544): never routed.
LIT = "198.19.0.0/17"
PORT = 8786
WORKER_PORT = 9000
# What a worker writes when the scheduler knows it.
JOINED = "Registered to"


class Region(NamedTuple):
    """A region: its name, its namespace, its address and the hub's on their link."""

    name: str
    netns: str
    address: str
    hub: str


class Regions(NamedTuple):
    """The hub's namespace, the regions, and a folder with certificate, caches and logs."""

    hub: str
    all: tuple[Region, ...]
    folder: Path

    @property
    def scheduler(self) -> str:
        """Return the scheduler's address, as all reach it."""
        return f"tls://{self.all[0].hub}:{PORT}"

    def environment(self, cache: str = "hub") -> dict[str, str]:
        """Return the environment of a program: certificates, and a cache folder by that name."""
        files = {f"DASK_DISTRIBUTED__COMM__TLS__{role}__{kind}": str(self.folder / f"{kind.lower()}.pem")
                 for role in ("SCHEDULER", "WORKER", "CLIENT") for kind in ("CERT", "KEY")}  # fmt: skip
        return {
            **os.environ, **files,
            "DASK_DISTRIBUTED__COMM__TLS__CA_FILE": str(self.folder / "cert.pem"),
            "DASK_DISTRIBUTED__COMM__REQUIRE_ENCRYPTION": "true",
            "XDG_CACHE_HOME": str(self.folder / "caches" / cache),
        }  # fmt: skip

    def within(self, netns: str, *words: str) -> list[str]:
        """Return a command in a namespace."""
        return ["nsenter", f"--net=/run/netns/{netns}", sys.executable, *words]

    @contextmanager
    def worker(self, region: Region, disk: str = "", site: Path | None = None) -> Iterator[subprocess.Popen[Any]]:
        """Run a worker in a region, from when the scheduler knows it; `disk` names its cache folder, `site` a folder
        whose modules come first."""
        disk = disk or region.name
        port = WORKER_PORT + int.from_bytes(disk.encode()[-2:], "big") % 1000
        words = [
            "-m", "distributed.cli.dask_worker", f"tls://{region.hub}:{PORT}", "--no-nanny", "--nthreads", "1",
            "--resources", f"region:{region.name}=1", "--host", region.address, "--worker-port", str(port),
            "--no-dashboard", "--memory-limit", "0", "--local-directory", str(self.folder / "scratch" / disk),
        ]  # fmt: skip
        environment = self.environment(disk) | ({"PYTHONPATH": str(site)} if site else {})
        path = self.folder / f"worker-{disk}.log"
        with path.open("ab") as log:
            command, before = self.within(region.netns, *words), path.read_text().count(JOINED)
            with child(command, stdout=log, stderr=log, cwd=self.folder, env=environment) as process:
                until(
                    lambda: path.read_text().count(JOINED) > before or process.poll() is not None,
                    lambda: path.read_text()[-2000:],
                )
                yield process

    def probe(self, db: Path, *words: str) -> list[str]:
        """Return a command of `probe run` at the hub."""
        return self.within(self.hub, "-m", "configtron", "--db", str(db), "-q", "probe", "run", *words)


@contextmanager
def cluster_regions(names: Sequence[str], folder: Path) -> Iterator[Regions]:
    """Raise hub, regions, web server and scheduler; all are gone on every exit path."""
    write_certificate(folder)
    with ExitStack() as stack:
        hub = stack.enter_context(throwaway("hub"))
        ip("link", "set", "lo", "up", netns=hub)
        ip("route", "add", "local", LIT, "dev", "lo", netns=hub)
        with inside(hub):
            Path("/proc/sys/net/ipv4/ip_forward").write_text("1")
        found = tuple(_region(stack, hub, name, number) for number, name in enumerate(names))
        regions = Regions(hub, found, folder)
        # where the user that nginx becomes may read it
        web = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="configtron-hub-")))
        stack.enter_context(running(SERVERS["nginx"], "0.0.0.0", web, hub))
        words = ["-m", "distributed.cli.dask_scheduler", "--protocol", "tls", "--port", str(PORT), "--no-dashboard",
                 "--host", "0.0.0.0"]  # fmt: skip
        log = stack.enter_context((folder / "scheduler.log").open("ab"))
        beside = child(regions.within(hub, *words), stdout=log, stderr=log, cwd=folder, env=regions.environment())
        stack.enter_context(beside)
        yield regions


def _region(stack: ExitStack, hub: str, name: str, number: int) -> Region:
    netns = stack.enter_context(throwaway(f"r{number}"))
    address, there = f"10.97.{number}.2", f"10.97.{number}.1"
    ip("link", "add", f"to{number}", "type", "veth", "peer", "name", "eth0", "netns", netns, netns=hub)
    for device, own, place in ((f"to{number}", there, hub), ("eth0", address, netns)):
        ip("addr", "add", f"{own}/30", "dev", device, netns=place)
        ip("link", "set", device, "up", netns=place)
    ip("link", "set", "lo", "up", netns=netns)
    ip("route", "add", "default", "via", there, netns=netns)
    return Region(name, netns, address, there)


def write_certificate(folder: Path) -> None:
    """Write one key and its own certificate, which all trust and all show."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "regions")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1)).not_valid_after(now + timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )  # fmt: skip
    (folder / "cert.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    form = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    (folder / "key.pem").write_bytes(key.private_bytes(serialization.Encoding.PEM, *form))
    (folder / "key.pem").chmod(0o600)


def lit(number: int) -> str:
    """Return an address where the web server answers."""
    return f"198.19.{number // 250}.{1 + number % 250}"
