# SPDX-License-Identifier: MIT
"""The outermost loop: every error becomes one line and one exit code here, and nowhere else."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from io import BufferedWriter, FileIO, TextIOWrapper
from typing import Any

import click
from click.core import ParameterSource

from configtron.cli.configfile import CONFIG_FILE
from configtron.cli.root import root
from configtron.cli.settings import hint
from configtron.linux.standard_streams import drop_stdout, open_standard_streams, place_of
from configtron.model.errors import DONE, INTERRUPTED, ConfigtronError, code_of
from configtron.model.packages import missing

# Set by the shell's completion script (`manual.py`).
COMPLETE = "_CONFIGTRON_COMPLETE"


class _Unheard(FileIO):
    """Standard error, whose reader may leave (`2>&1 | head`): the command goes on, as with a closed one."""

    def write(self, data: Any) -> int:
        """Write bytes, to nowhere once the reader has left; return how many were taken."""
        try:
            return super().write(data)
        except BrokenPipeError:
            return len(data)


def run(words: Sequence[str] | None = None) -> int:
    """Run one command line; return the exit code."""
    open_standard_streams()
    if (err := sys.__stderr__) and sys.stderr is err:
        bytes_out = BufferedWriter(_Unheard(2, "w", closefd=False))
        sys.stderr = TextIOWrapper(bytes_out, err.encoding, err.errors, line_buffering=True)
    if COMPLETE in os.environ:
        root.main(prog_name="configtron", complete_var=COMPLETE)
    try:
        # Not `root.main`, which turns a closed pipe into exit code 1: that means something else here.
        code = _performed(list(sys.argv[1:] if words is None else words))
        sys.stdout.flush()
        return code
    except ConfigtronError as error:
        click.echo(f"configtron: {_shown(str(error))}", err=True)
        return error.code
    except ModuleNotFoundError as error:
        lack = missing(error)
        click.echo(f"configtron: {hint(str(lack))}", err=True)
        return lack.code
    except click.NoSuchOption as error:
        if any(error.option_name in (*param.opts, *param.secondary_opts) for param in root.params):
            why = f"No such option {error.option_name!r} here; it stands before the verb: "
            click.UsageError(f"{why}configtron {error.option_name} VERB", error.ctx).show()
        else:
            error.show()
        return error.exit_code
    except click.ClickException as error:
        (_from_file(error) if isinstance(error, click.BadParameter) else error).show()
        return error.exit_code
    except (KeyboardInterrupt, click.Abort):
        click.echo("configtron: interrupted", err=True)
        return INTERRUPTED
    except BrokenPipeError:
        # The reader has seen enough (`| head`).
        drop_stdout()
        return DONE
    except OSError as error:
        # A full disk, a folder that is a file: the system's own words, and which file.
        click.echo(f"configtron: {place_of(error)}{error.strerror or error}", err=True)
        drop_stdout()
        return code_of(error)


def _shown(text: str) -> str:
    """Return an error's lines with each character that does not print as its number: other hosts' words are in some."""
    from configtron.model.wording import visible

    return "\n".join(map(visible, text.split("\n")))


def _performed(words: list[str]) -> int:
    """Perform one command line; return its exit code."""
    try:
        with root.make_context("configtron", words) as ctx:
            try:
                code = root.invoke(ctx)
            except ConfigtronError as error:
                if len(error.args) == 1:
                    error.args = (hint(str(error)),)
                raise
    except click.exceptions.Exit as done:
        return done.exit_code
    return code if isinstance(code, int) else DONE


def _from_file(error: click.BadParameter) -> click.BadParameter:
    """Name the configuration file of a value that its command refuses and that was not typed."""
    ctx, param = error.ctx, error.param
    if ctx is None or param is None or param.name is None:
        return error
    if ctx.get_parameter_source(param.name) is not ParameterSource.DEFAULT_MAP:
        return error
    table = ".".join(ctx.command_path.split()[1:])
    return click.BadParameter(f"{ctx.find_root().meta.get(CONFIG_FILE)}: [{table}]: {error.message}", ctx, param)
