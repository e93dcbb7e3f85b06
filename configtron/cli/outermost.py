"""The outermost loop: every error becomes one line and one exit code here, and nowhere else."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

import click

from configtron.cli.root import root
from configtron.errors import DONE, INTERRUPTED, ConfigtronError

# Set by the shell's completion script (`docs/completion/`).
COMPLETE = "_CONFIGTRON_COMPLETE"


def run(words: Sequence[str] | None = None) -> int:
    """Run one command line; the exit code."""
    if COMPLETE in os.environ:
        root.main(prog_name="configtron", complete_var=COMPLETE)
    try:
        # Not `root.main`, which turns a closed pipe into exit code 1: that means something else here.
        with root.make_context("configtron", list(sys.argv[1:] if words is None else words)) as ctx:
            code = root.invoke(ctx)
        sys.stdout.flush()
        return code if isinstance(code, int) else DONE
    except click.exceptions.Exit as done:
        return done.exit_code
    except ConfigtronError as error:
        click.echo(f"configtron: {error}", err=True)
        return error.code
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (KeyboardInterrupt, click.Abort):
        click.echo("configtron: interrupted", err=True)
        return INTERRUPTED
    except BrokenPipeError:
        # The reader has seen enough (`| head`). Python would complain once more when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return DONE
