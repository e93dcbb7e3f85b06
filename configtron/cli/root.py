# SPDX-License-Identifier: MIT
"""The command `configtron` itself and its global options."""

from __future__ import annotations

import os
from pathlib import Path

import click

from configtron import __version__
from configtron.cli.lazy import LazyGroup
from configtron.cli.options import FILE
from configtron.cli.settings import Settings
from configtron.linux.xdg import default_db

ROWS = {
    "probe": "Ask servers how they are configured.",
    "fingerprint": "Find how servers are configured, from recordings.",
    "tune": "Set this host's stack, by client prefix, and take it back.",
    "learn": "Learn which configuration loads pages fastest.",
    "replay": "Run production code on recorded worlds.",
    "doctor": "Find out what is wrong on this host, and what to type next.",
}


def _load_config(ctx: click.Context, _: click.Parameter, value: Path | None) -> Path | None:
    from configtron.cli.configfile import load

    ctx.default_map = load(value, ctx.command, ctx)
    return value


@click.group(
    cls=LazyGroup,
    package=__package__,
    rows=ROWS,
    short_help="Measure how servers configure TCP and HTTP, with evidence for every verdict.",
    context_settings={"help_option_names": ["-h", "--help"], "auto_envvar_prefix": "CONFIGTRON"},
)
@click.version_option(__version__, "--version", prog_name="configtron", message="%(prog)s %(version)s")
@click.option("--config", type=FILE, is_eager=True, expose_value=False, callback=_load_config,
              help="TOML file of options; ~/.config/configtron/config.toml if there is one.")  # fmt: skip
@click.option("--db", type=FILE, help="Database of runs.  [default: ~/.local/share/configtron/configtron.db]")
@click.option("-v", "--verbose", count=True, help="Log more; twice: everything.")
@click.option("-q", "--quiet", is_flag=True, help="Print nothing but errors.")
@click.option("--log-format", type=click.Choice(["text", "json"]), default="text", show_default=True,
              help="Form of log lines.")  # fmt: skip
@click.option("--log-file", type=FILE, help="Log here instead of stderr.")
@click.option("--no-color", is_flag=True, help="Plain text; NO_COLOR in the environment does the same.")
@click.pass_context
def root(ctx: click.Context, db: Path | None, verbose: int, quiet: bool, log_format: str, log_file: Path | None,
         no_color: bool) -> None:  # fmt: skip
    """Start with `configtron probe 127.0.0.1 --allow 127.0.0.1`: it shows how this host's server is configured.

    Measure how servers configure TCP and HTTP, with evidence for every verdict; set this host's own stack for each
    client, and learn which settings load pages fastest. Every option can be set in the configuration file and by an
    environment variable named after it, such as CONFIGTRON_DB or CONFIGTRON_PROBE_RUN_RATE.
    """
    from configtron.report.log_lines import begin_logging

    color = not (no_color or os.environ.get("NO_COLOR"))
    ctx.obj = Settings(db or default_db(), -1 if quiet else verbose, color)
    begin_logging(ctx.obj.loudness, log_format, log_file)
