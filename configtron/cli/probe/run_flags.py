# SPDX-License-Identifier: MIT
"""The options of `configtron probe run`, and what each of them accepts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from configtron.cli.completing import runs
from configtron.cli.options import FILE, Decorator, Finite, format_option, not_empty, output_option, with_options
from configtron.cli.probe.names import address_blocks, run_number, sendable, template, test_names
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


PERCENT: dict[str, Any] = {"default": 0, "metavar": "PERCENT"}
# fmt: off
run_options = with_options(
    _file("-i --input-file input_files", "Targets, one a line: name, address, block, URL; or CSV: IP,DOMAIN,TAG,PORT or"
          " rank,domain; # begins a comment; - is stdin.", multiple=True),
    output_option,
    format_option(text="Form of the results."),
    _text("--tests", f"Only these of {','.join(TESTS)}.", callback=test_names, metavar="T[,T]"),
    click.option("--profile", type=click.Choice(PROFILES), default="standard", show_default=True,
                 help="About how many connections to each target: quick 6, standard 13, paper 9, full 40."),
    _switch("--paper-compat", "--profile paper: SYNs without timestamps, as ConfigTron's."),
    _text("--region", "Only these vantages, by name or region.", metavar="R[,R]"),
    _file("--vantages", "TOML file of vantages; without it, the host itself."),
    _number("-r --rate rate_per_s", 0, "Connections started per second, all together; 0: no limit."
            "  [default: 100, --lab: 0]"),
    _number("--per-host-rate host_rate_per_s", 0, "The same for each address.  [default: 2, --lab: 0]"),
    _number("--per-network-rate network_rate_per_s", 0, "The same for each /24 (IPv6: /48).  [default: 10, --lab: 0]"),
    _count("-c --concurrency", 1, "Targets under way at once.", default=1000, show_default=True),
    _count("-j --jobs", 1, "Worker processes that share the rates; more than one above some 1000 a second.", default=1,
           show_default=True),
    _switch("-4 only4", "IPv4 only (the default)."),
    _switch("-6 only6", "IPv6 only; with -4: IPv4 first."),
    _text("--interface", "Send by this device."),
    _text("--source-ip", "Send from this address."),
    click.option("--path", default="/", show_default=True, callback=sendable,
                 help="Page to ask for, where the target names none."),
    _file("-b --blocklist-file blocklist_files", "Addresses, blocks and names never to probe.", multiple=True),
    _file("-w --allowlist-file allowlist_files", "Probe nothing but these, special-purpose ranges among them.",
          multiple=True),
    click.option("--allow", multiple=True, metavar="BLOCK", callback=address_blocks,
                 help="The same for one address or block: --allow 127.0.0.1, your own server."),
    _file("--opt-out-file opt_out_files", "Hosts and addresses whose operators opted out; read again while the run"
          " goes on.", multiple=True),
    _count("-n --max-targets", 1, "Only the first so many targets."),
    _number("-t --max-runtime max_runtime_s", 0, "Start no new target after so long.", default=0, metavar="SECONDS"),
    click.option("-e", "--seed", type=int, default=1, show_default=True,
                 help="Order of targets; with --lab, which internet."),
    _count("--shards", 1, "Part the targets in so many ...", default=1, show_default=True),
    _count("--shard", 0, "... and probe this part.", default=0, show_default=True),
    click.option("--resume", callback=run_number, shell_complete=runs, default=None, metavar="RUN",
                 help="Go on where that run (a number, or last) stopped, with its own targets and options."),
    _switch("-d --dry-run", "Show what would be probed; send nothing."),
    _file("--metadata-file", "Write the run's configuration and counts here, as JSON."),
    _file("--status-updates-file", "Write a JSON line here each second; - is stderr."),
    _file("--save-pcap", "Keep packets in this folder.", type=click.Path(path_type=Path, file_okay=False)),
    click.option("--fail-on", multiple=True, metavar="EXPR",
                 help="Exit with 1 if true: 'icw<10', 'http_version=http/1.1', 'failed>5%'."),
    _text("--contact", "URL of who probes; every request carries it.", callback=sendable, metavar="URL"),
    _file("--craft crafted", "Send the packets of this file, one Scapy expression a line, and show what answers.",
          callback=template, metavar="FILE"),
    _text("--cluster", "Have the workers of this Dask scheduler probe, each from its region (tls://HOST:8786).",
          metavar="ADDRESS", callback=not_empty),
    click.option("--shard-targets", type=click.IntRange(1, 500), default=200, show_default=True,
                 help="With --cluster: targets that a worker gets at once."),
    _switch("--lab", "Raise the lab internet and probe that; nothing leaves this host."),
    _count("--sites", 1, "With --lab: only the first so many sites.", default=None),
    click.option("--backend", type=click.Choice(BACKENDS), default=None,
                 help="With --lab: kernels of its own in virtual time, Debian's in real time, or the host's."),
    _switch("--lab-troubles", "With --lab: a share of the sites is difficult, each in one way."),
    _number("--lab-loss", 0, "With --lab: lose packets, on each way.", 50, **PERCENT),
    _number("--lab-reorder", 0, "With --lab: let packets overtake others, on each way.", 50, **PERCENT),
    _number("--lab-duplicate", 0, "With --lab: deliver packets twice, on each way.", 50, **PERCENT),
)
# fmt: on
