# SPDX-License-Identifier: MIT
"""The options of `configtron replay sessions`."""

from __future__ import annotations

from typing import Any

import click

from configtron.cli.completing import policies
from configtron.cli.options import budget_option, seed_option, spelt, typed, with_options
from configtron.cli.param_types import Finite, NamedPath
from configtron.model.errors import BadInput

# A replay without --sessions: 250 sessions for each of 20 classes x 12 sites.
SESSIONS = 60_000
# Decisions at once: as many as are made between two looks at signals.
MOST_AT_ONCE = 20_000
POPS = ("global", "local")
# As in `configtron/studies/sim/distortions.py`, which the command's help is not to import.
DISTORT = "bots, crawler, clocks, tails, diurnal, stale, wrong, shuffled, unknown-features, missing-cells"
# The source of sessions that stands for a world's file itself (`configtron/studies/sim/origin.py`).
OWN = "own"
# What a world's file has itself, and the options that may stand beside --world-out.
NOT_BESIDE_WORLD = ("tensor", "per_s")
BESIDE_WORLD_OUT = ("source", "tensor", "count", "seed", "per_s", "rtt_ms", "loss", "worlds", "world_out")
# The options that may stand beside --resume: where the answer goes.
BESIDE_RESUME = ("resume", "form", "output_file")
# What `--help` lists last.
ADVANCED = (
    "engine", "world_out", "warm", "classes", "interval_s", "delay_s", "per_s", "pops", "batch", "rtt_ms", "loss",
    "distort", "damage",
)  # fmt: skip


# fmt: off
session_options = with_options(
    click.option("--policy", "policies", multiple=True, metavar="POLICY", shell_complete=policies,
                 help="A policy of `learn policies`, or a class of your own, package.module:Class; repeat for more."
                      "  [default: thompson]"),
    click.option("--engine", default="grid", show_default=True, metavar="ENGINE",
                 help="Search engine of policies that search cells: grid, gpyopt, gpyopt-classic."),
    click.option("--source", default="spread", show_default=True, metavar="SHAPE|FILE",
                 help="Networks of sessions: spread, caida, mawi, fcc, pantheon; or a file:"
                      " capture, contexts as JSON Lines, CSV (sessions or networks), Mahimahi, [s, Mbit/s]."),
    click.option("--tensor", default="analytic", show_default=True, metavar="FILE|NAME",
                 help="Page load times: a PLT-tensor's file; analytic, idiosyncratic; hotcloud, configtron, realism."),
    click.option("--world", "worlds", multiple=True, metavar="FILE", type=NamedPath(dir_okay=False),
                 help="A world's file of any origin (docs/studies.md), for --tensor; repeat for a row each."),
    click.option("--world-out", metavar="FILE", type=NamedPath(dir_okay=False),
                 help="Write the world of these options as a world's file, .npz or .csv, and play nothing."),
    click.option("--warm", default="none", show_default=True, metavar="FILE|NAME",
                 help="An emulated tensor to start from: a file, or mis-specified."),
    click.option("--sessions", "count", type=click.IntRange(1), metavar="N",
                 help=f"Number of sessions; a CSV has its own.  [default: {SESSIONS}]"),
    seed_option,
    click.option("--classes", type=click.IntRange(1), default=20, show_default=True, metavar="K",
                 help="Network classes."),
    click.option("--update", "interval_s", type=Finite(0.001), default=120.0, show_default=True, metavar="SECONDS",
                 help="Seconds of the sessions' clock between two updates."),
    click.option("--delay", "delay_s", type=Finite(0.0), default=5.0, show_default=True, metavar="SECONDS",
                 help="Seconds from the end of a page load until a policy can learn from it."),
    click.option("--rate", "per_s", type=Finite(0.001), default=10.0, show_default=True, metavar="PER_S",
                 help="Generated sessions a second."),
    click.option("--pops", type=click.Choice(POPS), default="global", show_default=True,
                 help="One manager for all, or one for each of five PoPs."),
    click.option("--batch", type=click.IntRange(1, MOST_AT_ONCE), default=MOST_AT_ONCE, show_default=True, metavar="N",
                 help="Decisions in one batch; the result does not depend on it."),
    click.option("--rtt", "rtt_ms", type=Finite(0.1), default=80.0, show_default=True, metavar="MS",
                 help="Round-trip time of a link trace, which has none of its own."),
    click.option("--loss", type=Finite(0, 1), default=0.0, show_default=True, metavar="SHARE",
                 help="Loss of a link trace."),
    click.option("--distort", "distort", multiple=True, metavar="NAME",
                 help="Distort reported outcomes or features; repeat for more. Clients are judged by what happened."
                      f" One of {DISTORT}."),
    click.option("--damage", default="", metavar="BYTES",
                 help="Refuse configurations that take more bytes from neighbours for each byte of a page, by --tensor;"
                      " none: no bound.  [default: 1.25 where it was measured]"),
    budget_option(),
    click.option("--log", "keep_log", is_flag=True, help="Store outcomes in the database, for `configtron learn`."),
    click.option("--resume", default=None, is_flag=False, flag_value="last", metavar="[N]",
                 help="Resume an interrupted replay: its number, or the latest."),
)
# fmt: on


def take_world(given: dict[str, Any]) -> None:
    """Take the sessions of a world's file, unless --source names others. Errors: `BadInput` for --tensor beside it."""
    for name in NOT_BESIDE_WORLD:
        if name in typed():
            raise BadInput(f"--world has page load times and arrivals of its own; leave {spelt(name)} out")
    if "source" not in typed():
        given["source"] = OWN
