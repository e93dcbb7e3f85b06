# SPDX-License-Identifier: MIT
"""The options of a probe run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from configtron.fleet.transport.dask_client import check_address
from configtron.model.bounds import check_choice, check_number, check_texts
from configtron.model.choices import PROFILES, TESTS
from configtron.model.errors import BadInput
from configtron.probe.profiles import plan

IP_VERSIONS = (4, 6)


# Each worker process has source ports of its own, and needs hundreds.
MOST_JOBS = 16
# The largest share of packets that the lab loses, reorders or duplicates; beyond it no connection ends.
MOST_PERCENT = 50


# More targets at once would be lost with a worker, and take long to hand out.
MOST_SHARD_TARGETS = 500


@dataclass(frozen=True, slots=True)
class ProbeOptions:
    """The options of `probe run`; `inputs.py` makes targets, vantages and a blocklist of them.

    output_file, format, fields, fail_on, metadata_file, status_updates_file and dry_run are for the caller, who renders
    the run; they are here since the database keeps all options of a run.

    words               targets, blocks, URLs, names of bundled lists
    output_file         "-" is stdout
    allow               addresses and blocks: an allowlist on the command line
    tests               keys of `configtron.probe.profiles.TESTS`; empty: all of the profile's
    rates               connections started per second; 0 is no limit
    jobs                worker processes that share the rates; outside the lab
    max_runtime_s       start nothing new after so long; 0 is no limit
    versions            IP versions to ask for, best first
    resume              number of the run to go on with; 0 begins a new one
    contact             URL or mail address for the operators of probed servers; stands in every request
    crafted             the user's own packets (`probe/craft.py`), in place of the profile's probes
    cluster             address of a Dask scheduler whose workers probe, each from its region; "": this host probes
    shard_targets       targets that a worker of the cluster is given at once
    lab, sites, backend raise the lab internet, with the first `sites` names of the list (0: all), on that backend
    lab_troubles, ...   make its sites difficult, its links lossy, its packets overtake each other
    """

    words: tuple[str, ...] = ()
    input_files: tuple[Path, ...] = ()
    output_file: str = "-"
    format: str = "table"
    fields: tuple[str, ...] = ()
    tests: tuple[str, ...] = ()
    profile: str = "standard"
    region: str = ""
    vantages: Path | None = None
    rate_per_s: float = 100.0
    host_rate_per_s: float = 2.0
    network_rate_per_s: float = 10.0
    concurrency: int = 1000
    versions: tuple[int, ...] = (4,)
    interface: str = ""
    source_ip: str = ""
    path: str = "/"
    blocklist_files: tuple[Path, ...] = ()
    allowlist_files: tuple[Path, ...] = ()
    allow: tuple[str, ...] = ()
    opt_out_files: tuple[Path, ...] = ()
    max_targets: int | None = None
    max_runtime_s: float = 0.0
    seed: int = 1
    shards: int = 1
    shard: int = 0
    jobs: int = 1
    resume: int = 0
    dry_run: bool = False
    metadata_file: Path | None = None
    status_updates_file: Path | None = None
    save_pcap: Path | None = None
    fail_on: tuple[str, ...] = ()
    contact: str = ""
    crafted: str = ""
    cluster: str = ""
    shard_targets: int = 200
    lab: bool = False
    sites: int = 0
    backend: str = ""
    lab_troubles: bool = False
    lab_loss: float = 0.0
    lab_reorder: float = 0.0
    lab_duplicate: float = 0.0

    def __post_init__(self) -> None:
        """Check texts, names and ranges. Errors: `BadInput`."""
        check_texts(self)
        check_choice("profile", self.profile, PROFILES)
        for test in self.tests:
            check_choice("tests", test, TESTS)
            if not any(plan(self.profile, frozenset((test,)))[4:]):
                raise BadInput(f"tests: --profile {self.profile} has no connection for {test}; take --profile full")
        if strange := [version for version in self.versions if version not in IP_VERSIONS]:
            raise BadInput(f"versions: {strange[0]} is no version of IP; 4 and 6 are")
        for name in ("lab_loss", "lab_reorder", "lab_duplicate"):
            check_number(name, getattr(self, name), 0, MOST_PERCENT, beside=", in percent")
        for name in ("rate_per_s", "host_rate_per_s", "network_rate_per_s", "max_runtime_s"):
            check_number(name, getattr(self, name), 0)
        for name, least in (("concurrency", 1), ("seed", 0), ("sites", 0)):
            check_number(name, getattr(self, name), least, whole=True)
        check_number("max_targets", self.max_targets, 1, whole=True, beside=", or None for all", absent=True)
        check_number("shards", self.shards, 1, whole=True)
        check_number("jobs", self.jobs, 1, MOST_JOBS, whole=True)
        check_number("shard", self.shard, 0, self.shards - 1, whole=True)
        check_number("shard_targets", self.shard_targets, 1, MOST_SHARD_TARGETS, whole=True)
        if self.cluster:
            check_address(self.cluster)
        if self.cluster and (self.lab or self.crafted or self.jobs > 1):
            raise BadInput("--cluster probes by workers that stand elsewhere; leave --lab, --craft and --jobs out")
        if self.cluster and (self.interface or self.source_ip):
            raise BadInput("--interface and --source-ip are this host's; with --cluster, name those of each vantage in"
                           " --vantages FILE")  # fmt: skip
        if self.lab and self.jobs > 1:
            raise BadInput("--jobs is for probing from this host; the lab's vantages are processes of their own")
        if not self.lab and (self.sites or self.backend):
            raise BadInput("--sites and --backend belong to --lab")
        if not self.lab and (self.lab_troubles or self.lab_loss or self.lab_reorder or self.lab_duplicate):
            raise BadInput("--lab-troubles, --lab-loss, --lab-reorder and --lab-duplicate belong to --lab")


# Starts per second outside the lab, unless asked otherwise: a site sees two, its operator's network ten, and the whole
# run stays below what one impatient browser does.
LIVE_RATES = {"rate_per_s": 100.0, "host_rate_per_s": 2.0, "network_rate_per_s": 10.0}


def live_rates(fields: Mapping[str, Any]) -> dict[str, float]:
    """Return the rates that are None in these fields of `ProbeOptions`: no limit in the lab, low ones elsewhere."""
    return {name: 0.0 if fields["lab"] else rate for name, rate in LIVE_RATES.items() if fields[name] is None}


def resumed_options(begun: ProbeOptions, options: ProbeOptions, number: int) -> ProbeOptions:
    """Return the options of a resumed run: those it was begun with, but for where results go, when to end and opt-outs.

    Who opted out since then is not probed either: opt-out files of today join the run's own.
    """
    todays = ("output_file", "format", "fields", "fail_on", "metadata_file", "status_updates_file", "save_pcap")
    return replace(
        begun,
        **{name: getattr(options, name) for name in todays},
        resume=number,
        max_runtime_s=options.max_runtime_s,
        cluster=options.cluster or begun.cluster,
        opt_out_files=tuple(dict.fromkeys((*begun.opt_out_files, *options.opt_out_files))),
    )
