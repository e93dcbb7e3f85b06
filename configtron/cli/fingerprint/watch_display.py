# SPDX-License-Identifier: MIT
"""What `live` and `socket` share: options, the output, progress on stderr, Ctrl-C."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

import click

from configtron.cli.options import INPUT_FILE, SPAN, format_option, output_option, with_options
from configtron.cli.output import say
from configtron.cli.settings import settings
from configtron.linux.signals import asked_to_stop
from configtron.model.errors import DONE, INTERRUPTED, NOTHING

if TYPE_CHECKING:
    from configtron.service.capture import Outputs, WatchResult, WatchWriter


# The options of both commands.
watch_options = with_options(
    format_option(),
    output_option,
    click.option("--for", "span", type=SPAN, metavar="SECONDS", help="Stop after this time.  [default: at Ctrl-C]"),
    click.option("--access-log", type=INPUT_FILE, help="Log of a web server (combined format), for devices."),
    click.option("--mmdb", "places", type=INPUT_FILE, multiple=True,
                 help="MaxMind-format file, for ASN or country; may be repeated."),
)  # fmt: skip


@contextmanager
def watch_outputs(form: str, output_file: str, *, silent: bool = False) -> Iterator[tuple[Outputs, WatchWriter]]:
    """Yield where a watch reports. Once it has begun, the first Ctrl-C, SIGTERM or SIGHUP cancels it, and a second one
    does not wait for it."""
    from configtron.service.capture import Outputs, WatchWriter

    with ExitStack() as stack:
        display = WatchWriter(form, output_file, stack, say, silent=silent)
        with asked_to_stop(lambda: display.begun) as stopping:
            yield Outputs(settings().db, display.ready, display.sink, display.progress, stopping), display


def exit_code(done: WatchResult) -> int:
    """Return the exit code of a watch that has ended."""
    return INTERRUPTED if done.cancelled else DONE if done.counts.get("connections") else NOTHING
