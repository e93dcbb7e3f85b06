# SPDX-License-Identifier: MIT
"""The options of `configtron probe run`, and what each of them accepts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from configtron.cli.completing import runs
from configtron.cli.options import FILE, Decorator, not_empty, output_option, with_options
from configtron.cli.param_types import Finite, NamedPath
from configtron.cli.probe import names
from configtron.model.choices import BACKENDS, PROFILES, TESTS


def _number(flag: str, least: float | None, text: str, most: float | None = None, **more: Any) -> Decorator:
    return click.option(*flag.split(), type=Finite(least, most), help=text, **more)


def _count(flag: str, least: int, text: str, **more: Any) -> Decorator:
    return click.option(*flag.split(), type=click.IntRange(min=least), help=text, **more)


def _text(flag: str, text: str, **more: Any) -> Decorator:
    return click.option(*flag.split(), default="", help=text, **more)


def _file(flag: str, text: str, **more: Any) -> Decorator:
    return click.option(*flag.split(), help=text, **{"type": FILE, **more})


def _switch(flag: str, text: str) -> Decorator:
    return click.option(*flag.split(), is_flag=True, help=text)


# What `--help` lists last.
ADVANCED = (
    "paper_compat", "host_rate_per_s", "network_rate_per_s", "concurrency", "jobs", "interface", "source_ip",
    "max_runtime_s", "shards", "shard", "metadata_file", "status_updates_file", "crafted", "cluster", "shard_targets",
    "backend", "lab_loss", "lab_reorder", "lab_duplicate",
)  # fmt: skip
PERCENT: dict[str, Any] = {"default": 0, "metavar": "PERCENT"}
# fmt: off
run_options = with_options(
    _file("-i --input-file input_files", "Targets, one a line: name, address, block, URL; or CSV: IP,DOMAIN,TAG,PORT or"
          " rank,domain; # begins a comment; - is stdin.", multiple=True),
    output_option,
    names.results_form,
    _text("--tests", f"Run only these tests: {', '.join(TESTS)}.", callback=names.test_names, metavar="T[,T]"),
    click.option("--profile", type=click.Choice(PROFILES), default="standard", show_default=True,
                 help="About how many connections to each target: quick 6, standard 13, paper 9, full 40."),
    _switch("--paper-compat", "The same as --profile paper: SYNs without timestamps, as in the paper."),
    _text("--region", "Probe only from these vantages, by name or region.", metavar="R[,R]"),
    _file("--vantages", "TOML file of vantages; without it, the host itself."),
    _number("-r --rate rate_per_s", 0, "Connections started per second, all together; 0: no limit."
            "  [default: 100, --lab: 0]"),
    _number("--per-host-rate host_rate_per_s", 0, "Connections started per second to each address."
            "  [default: 2, --lab: 0]"),
    _number("--per-network-rate network_rate_per_s", 0, "Connections started per second to each /24 (IPv6: /48)."
            "  [default: 10, --lab: 0]"),
    _count("-c --concurrency", 1, "Targets that are probed at the same time.", default=1000, show_default=True),
    _count("-j --jobs", 1, "Worker processes, which share the rates; use more than one above some 1000 a second.",
           default=1, show_default=True),
    _switch("-4 only4", "IPv4 only (the default)."),
    _switch("-6 only6", "IPv6 only; with -4: IPv4 first."),
    _text("--interface", "Send packets by this interface.", callback=names.interface_name),
    _text("--source-ip", "Send packets from this address."),
    click.option("--path", default="/", show_default=True, callback=names.sendable,
                 help="Page to ask for, where the target names none."),
    _file("-b --blocklist-file blocklist_files", "Addresses, blocks and names never to probe.", multiple=True),
    _file("-w --allowlist-file allowlist_files", "Probe only these addresses and blocks, even special-purpose ones.",
          multiple=True),
    click.option("--allow", multiple=True, metavar="BLOCK", callback=names.address_blocks,
                 help="Probe only this address or block, even a special-purpose one: 127.0.0.1, your own server."),
    _file("--opt-out-file opt_out_files", "Hosts and addresses whose operators opted out; read again while the run"
          " goes on.", multiple=True),
    _count("-n --max-targets", 1, "Probe only the first N targets.", metavar="N"),
    _number("-t --max-runtime max_runtime_s", 0, "Start no new target after this time.", default=0, metavar="SECONDS"),
    click.option("-e", "--seed", type=int, default=1, show_default=True,
                 help="Seed of the order of targets, and of the lab internet."),
    _count("--shards", 1, "Divide the targets into N parts.", metavar="N", default=1, show_default=True),
    _count("--shard", 0, "With --shards: probe this part; the first is 0.", default=0, show_default=True),
    click.option("--resume", callback=names.run_number, shell_complete=runs, default=None, metavar="RUN",
                 help="Resume that run (a number, or last), with its own targets and options."),
    _switch("-d --dry-run", "Show what would be probed; send nothing."),
    _file("--metadata-file", "Write the run's configuration and counts here, as JSON."),
    _file("--status-updates-file", "Write a JSON line here each second; - is stderr."),
    _file("--save-pcap", "Write packets to files in this folder.", type=NamedPath(path_type=Path, file_okay=False)),
    click.option("--fail-on", multiple=True, metavar="EXPR",
                 help="Exit with 1 if true: 'icw<10', 'http_version=http/1.1', 'failed>5%'."),
    _text("--contact", "URL that names who probes; every request carries it.", callback=names.sendable, metavar="URL"),
    _file("--craft crafted", "Send the packets of this file, one Scapy expression a line, and show the answers.",
          callback=names.template, metavar="FILE"),
    _text("--cluster", "Let the workers of this Dask scheduler probe, each from its region (tls://HOST:8786).",
          metavar="ADDRESS", callback=not_empty),
    click.option("--shard-targets", type=click.IntRange(1, 500), default=200, show_default=True,
                 help="With --cluster: targets in one task of a worker."),
    _switch("--lab", "Start the lab internet and probe it; no packet leaves this host."),
    _count("--sites", 1, "With --lab: only the first N sites.", default=None, metavar="N"),
    click.option("--backend", type=click.Choice(BACKENDS), default=None,
                 help="With --lab: own kernels in virtual time, Debian's kernel in real time, or this host's."),
    _switch("--lab-troubles", "With --lab: a share of the sites is difficult, each in one way."),
    _number("--lab-loss", 0, "With --lab: lose this share of packets, in each direction.", 50, **PERCENT),
    _number("--lab-reorder", 0, "With --lab: let this share of packets overtake, in each direction.", 50, **PERCENT),
    _number("--lab-duplicate", 0, "With --lab: deliver this share of packets twice, in each direction.", 50, **PERCENT),
)
# fmt: on
