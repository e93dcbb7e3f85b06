# SPDX-License-Identifier: MIT
"""`configtron replay sessions`."""

from __future__ import annotations

from typing import Any

import click

from configtron.cli.advanced import LongCommand
from configtron.cli.options import check_alone, form_options
from configtron.cli.output import LEARNING, event_lines, say, write_rows
from configtron.cli.replay import session_flags as flags
from configtron.cli.settings import settings
from configtron.model.errors import DONE, INTERRUPTED
from configtron.report.files import can_be_written


@click.command(cls=LongCommand, advanced=flags.ADVANCED)
@flags.session_options
@form_options
def sessions(resume: str | None, world_out: str | None, form: str, output_file: str, **given: Any) -> int:
    """Put the production policy on simulated sessions: sessions x PLT-tensor -> the policy that `learn run` runs.

    The result is the distance from the best configuration of each session's network, with 95 % intervals over prefixes.
    An analytic tensor is a formula: rankings and convergence on it are results, milliseconds saved are not. The same
    seed gives the same bits, whatever --batch, and after --resume. docs/studies.md explains sources
    and results. Exit code 130: interrupted; what was done is kept.
    """
    if given["worlds"]:
        flags.take_world(given)
    # Of a world's file, as many as it has.
    given["count"] = given["count"] or (0 if given["worlds"] else flags.SESSIONS)
    can_be_written(output_file)
    # The simulator's modules alone take a second.
    say("replay: reading the world, and checking it")
    from configtron.linux.signals import stop_signals
    from configtron.report.session_rows import session_table
    from configtron.service import replay
    from configtron.studies.sim import simulation
    from configtron.studies.sim.session_job import run_job

    options = replay.SessionOptions(**given)
    if world_out is not None:
        check_alone(flags.BESIDE_WORLD_OUT, "--world-out plays nothing")
        replay.export_world(simulation.origins_of(options), world_out, say)
        return DONE
    display = event_lines(closing=False)
    if resume is not None:
        check_alone(flags.BESIDE_RESUME, "--resume goes on as it was begun")
    job = simulation.job_of(options, display) if resume is None else None
    with stop_signals(say) as stopping:
        done = run_job(settings().db, job, resume or "", {simulation.KIND: simulation.part}, display, stopping)
    if done.cancelled:
        return INTERRUPTED
    write_rows(form, output_file, *session_table(done.found, form), LEARNING)
    return DONE
