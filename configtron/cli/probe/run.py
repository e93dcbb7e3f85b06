# SPDX-License-Identifier: MIT
"""`configtron probe run`: the options; `campaign.py` does the work."""

from __future__ import annotations

from ipaddress import ip_network
from pathlib import Path
from typing import Any

import click

from configtron.cli.completing import lists, runs
from configtron.cli.probe.names import finite, run_number
from configtron.cli.probe.options import ProbeOptions
from configtron.cli.settings import settings
from configtron.model.errors import BadInput

FILE = click.Path(path_type=Path, dir_okay=False)
# Kept literal, so that `--help` imports no probe; tests hold them against the tables they repeat.
TESTS = ("icw", "icw_tls", "rto", "rwin", "signature", "options", "behaviour", "http", "h2", "tls")
PROFILES = ("quick", "standard", "full", "paper")
FORMATS = ("table", "jsonl", "csv")
BACKENDS = ("uml-virtual", "uml-real", "netns")

# Starts per second against servers of other people, unless asked otherwise: a site sees two, its operator's network
# ten, and the whole run stays below what one impatient browser does.
LIVE_RATES = {"rate_per_s": 100.0, "host_rate_per_s": 2.0, "network_rate_per_s": 10.0}
# Options, as files and environment variables name them -> fields of ProbeOptions, where those differ.
FIELDS = {
    "rate": "rate_per_s",
    "per_host_rate": "host_rate_per_s",
    "per_network_rate": "network_rate_per_s",
    "max_runtime": "max_runtime_s",
    "input_file": "input_files",
    "blocklist_file": "blocklist_files",
    "allowlist_file": "allowlist_files",
    "opt_out_file": "opt_out_files",
}
# What a resumed run takes from today's command line; all else it keeps as it was begun (campaign._resume).
TODAYS = {
    "resume", "output_file", "format", "fail_on", "metadata_file", "status_updates_file", "save_pcap", "max_runtime",
    "words", "dry_run",
}  # fmt: skip


def _tests(_ctx: click.Context, _param: click.Parameter, value: str) -> tuple[str, ...]:
    found = tuple(word.strip() for word in value.split(",") if word.strip())
    for name in found:
        if name not in TESTS:
            raise click.BadParameter(f"{name!r}; known are {', '.join(TESTS)}")
    return found


def _sendable(_ctx: click.Context, param: click.Parameter, value: str) -> str:
    """What stands in a request: visible ASCII, no spaces, so that it can end no line and begin no header."""
    if not (value.isascii() and value.isprintable()) or " " in value:
        raise click.BadParameter("plain ASCII without spaces; write other characters as %XX")
    if param.name == "path" and not value.startswith("/"):
        raise click.BadParameter("a path begins with /")
    return value


def _template(_ctx: click.Context, _param: click.Parameter, path: Path | None) -> str:
    """The packets of a template file, as the probe takes them."""
    if path is None:
        return ""
    from configtron.cli.probe.plan import source_of
    from configtron.probe.wire.craft import read_template

    return read_template(source_of(path).text, str(path))


def _blocks(_ctx: click.Context, _param: click.Parameter, value: tuple[str, ...]) -> tuple[str, ...]:
    for text in value:
        try:
            ip_network(text, strict=False)
        except ValueError as error:
            raise click.BadParameter(f"{error}; name addresses or blocks, such as 127.0.0.1 or 10.0.0.0/24") from error
    return value


def _typed(name: str) -> bool:
    """Whether an option stands on the command line, and not only in the configuration."""
    return click.get_current_context().get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE


def _only_of_a_resumed_run() -> None:
    """A resumed run keeps its own options: others that are typed beside would be dropped without a word."""
    ctx = click.get_current_context()
    for param in ctx.command.params:
        if param.name not in TODAYS and _typed(str(param.name)):
            option = max(param.opts, key=len)
            raise BadInput(f"--resume goes on with the run's own options; leave {option} out, or begin a new run")


@click.command(short_help="Probe targets; the command meant when none is named.")
@click.argument("words", metavar="[TARGET|@LIST|BLOCK|URL]...", nargs=-1, shell_complete=lists)
@click.option("-i", "--input-file", multiple=True, type=FILE,
              help="Targets, one a line: name, address, block, URL; or CSV: IP,DOMAIN,TAG,PORT or rank,domain; "
              "# begins a comment; - is stdin.")  # fmt: skip
@click.option("-o", "--output-file", default="-", type=click.Path(dir_okay=False), help="Results; - is stdout.")
@click.option("-f", "--format", type=click.Choice(FORMATS), default="table", show_default=True,
              help="Form of the results.")  # fmt: skip
@click.option("--tests", default="", callback=_tests, metavar="T[,T]", help=f"Only these of {','.join(TESTS)}.")
@click.option(
    "--profile",
    type=click.Choice(PROFILES),
    default="standard",
    show_default=True,
    help="About how many connections to each target: quick 6, standard 13, paper 9, full 40.",
)
@click.option("--paper-compat", is_flag=True, help="--profile paper: SYNs without timestamps, as ConfigTron's.")
@click.option("--region", default="", metavar="R[,R]", help="Only these vantages, by name or region.")
@click.option("--vantages", type=FILE, help="TOML file of vantages; without it, the host itself.")
@click.option("-r", "--rate", type=click.FloatRange(min=0), callback=finite,
              help="Connections started per second, all together; 0: no limit.  [default: 100, --lab: 0]")  # fmt: skip
@click.option("--per-host-rate", type=click.FloatRange(min=0), callback=finite,
              help="The same for each address.  [default: 2, --lab: 0]")  # fmt: skip
@click.option("--per-network-rate", type=click.FloatRange(min=0), callback=finite,
              help="The same for each /24 (IPv6: /48).  [default: 10, --lab: 0]")  # fmt: skip
@click.option("-c", "--concurrency", type=click.IntRange(min=1), default=1000, show_default=True,
              help="Targets under way at once.")  # fmt: skip
@click.option("-4", "only4", is_flag=True, help="IPv4 only (the default).")
@click.option("-6", "only6", is_flag=True, help="IPv6 only; with -4: IPv4 first.")
@click.option("--interface", default="", help="Send by this device.")
@click.option("--source-ip", default="", help="Send from this address.")
@click.option(
    "--path", default="/", show_default=True, callback=_sendable, help="Page to ask for, where the target names none."
)
@click.option("-b", "--blocklist-file", multiple=True, type=FILE,
              help="Addresses, blocks and names never to probe.")  # fmt: skip
@click.option("-w", "--allowlist-file", multiple=True, type=FILE,
              help="Probe nothing but these, special-purpose ranges among them.")  # fmt: skip
@click.option("--allow", multiple=True, metavar="BLOCK", callback=_blocks,
              help="The same for one address or block: --allow 127.0.0.1, your own server.")  # fmt: skip
@click.option("--opt-out-file", multiple=True, type=FILE, help="Who asked to be left alone.")
@click.option("-n", "--max-targets", type=click.IntRange(min=1), help="Only the first so many targets.")
@click.option("-t", "--max-runtime", type=click.FloatRange(min=0), callback=finite, default=0, metavar="SECONDS",
              help="Start no new target after so long.")  # fmt: skip
@click.option("-e", "--seed", type=int, default=1, show_default=True,
              help="Order of targets; with --lab, which internet.")  # fmt: skip
@click.option("--shards", type=click.IntRange(min=1), default=1, show_default=True,
              help="Part the targets in so many ...")  # fmt: skip
@click.option("--shard", type=click.IntRange(min=0), default=0, show_default=True, help="... and probe this part.")
@click.option("--resume", callback=run_number, shell_complete=runs, default=None, metavar="RUN",
              help="Go on where that run (a number, or last) stopped, with its own targets and options.")  # fmt: skip
@click.option("-d", "--dry-run", is_flag=True, help="Show what would be probed; send nothing.")
@click.option("--metadata-file", type=FILE, help="Write the run's configuration and counts here, as JSON.")
@click.option("--status-updates-file", type=FILE, help="Write a JSON line here each second; - is stderr.")
@click.option("--save-pcap", type=click.Path(path_type=Path, file_okay=False), help="Keep packets in this folder.")
@click.option("--fail-on", multiple=True, metavar="EXPR",
              help="Exit with 1 if true: 'icw<10', 'http_version=http/1.1', 'failed>5%'.")  # fmt: skip
@click.option(
    "--contact",
    default="",
    callback=_sendable,
    metavar="URL",
    help="Who asks, for the probed: stands in every request.",
)
@click.option("--craft", "crafted", type=FILE, callback=_template, metavar="FILE",
              help="Send the packets of this file, one Scapy expression a line, and show what answers.")  # fmt: skip
@click.option("--lab", is_flag=True, help="Raise the lab internet and probe that; nothing leaves this host.")
@click.option("--sites", type=click.IntRange(min=1), default=None, help="With --lab: only the first so many sites.")
@click.option(
    "--backend",
    type=click.Choice(BACKENDS),
    default=None,
    help="With --lab: kernels of its own in virtual time, Debian's in real time, or the host's.",
)
@click.option("--lab-troubles", is_flag=True, help="With --lab: a share of the sites is difficult, each in one way.")
@click.option("--lab-loss", type=click.FloatRange(0, 50), callback=finite, default=0, metavar="PERCENT",
              help="With --lab: lose packets, on each way.")  # fmt: skip
@click.option("--lab-reorder", type=click.FloatRange(0, 50), callback=finite, default=0, metavar="PERCENT",
              help="With --lab: let packets overtake others, on each way.")  # fmt: skip
@click.option("--lab-duplicate", type=click.FloatRange(0, 50), callback=finite, default=0, metavar="PERCENT",
              help="With --lab: deliver packets twice, on each way.")  # fmt: skip
def run(
    only4: bool,
    only6: bool,
    paper_compat: bool,
    resume: int | None,
    sites: int | None,
    backend: str | None,
    **given: Any,
) -> int:
    """Probe targets and keep verdicts and packets.

    A TARGET is a name, an address, a block (192.0.2.0/28) or a URL, with a port if need be; @LIST, or its name alone,
    is a bundled list (`configtron probe lists`). Without targets, those of --input-file.

    \b
        configtron probe example.com
        configtron probe alexa-top1k --lab --seed 1
        configtron probe -i sites.csv -n 100 -f jsonl -o sites.jsonl
    """
    fields = {FIELDS.get(name, name): value for name, value in given.items()}
    for name, default in LIVE_RATES.items():
        if fields[name] is None:
            fields[name] = 0.0 if fields["lab"] else default
    if paper_compat:
        if fields["profile"] != "paper" and _typed("profile"):
            raise BadInput("--paper-compat is a profile of its own; leave out --profile")
        fields["profile"] = "paper"
    options = ProbeOptions(
        **fields,
        versions=(4, 6) if only4 and only6 else (6,) if only6 else (4,),
        resume=resume or 0,
        sites=sites or 0,
        backend=backend or "",
    )
    if not (options.words or options.input_files or options.resume):
        raise BadInput("no targets; name some, or a list such as alexa-top1k, or --input-file FILE")
    if options.resume and options.words:
        raise BadInput("--resume goes on with the run's own targets; name no others beside it")
    if options.resume:
        _only_of_a_resumed_run()
    if not options.lab and (options.sites or options.backend):
        raise BadInput("--sites and --backend belong to --lab")
    if not options.lab and (options.lab_troubles or options.lab_loss or options.lab_reorder or options.lab_duplicate):
        raise BadInput("--lab-troubles, --lab-loss, --lab-reorder and --lab-duplicate belong to --lab")
    if options.resume and options.dry_run:
        raise BadInput("--dry-run shows what a new run would probe; leave --resume out")
    from configtron.cli.probe import campaign

    if options.dry_run:
        return campaign.dry(options)
    from configtron.db.store import Store

    with Store(settings().db) as store:
        return int(campaign.run(options, store))
