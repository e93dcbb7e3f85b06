"""`configtron fingerprint contexts`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from configtron.cli.fingerprint.watching import FORMATS
from configtron.cli.settings import settings
from configtron.errors import DONE, NOTHING, BadInput
from configtron.report.lines import opened

if TYPE_CHECKING:
    from configtron.db.store import Store, Watch


@click.command(short_help="Show the contexts that a watch kept; without WATCH, list the watches.")
@click.argument("watch", required=False, type=int)
@click.option("-f", "--format", "form", type=click.Choice(FORMATS), default="table", show_default=True,
              help="Form of the answer.")  # fmt: skip
@click.option("-o", "--output-file", default="-", type=click.Path(dir_okay=False), help="Write here; - is stdout.")
def contexts(watch: int | None, form: str, output_file: str) -> int:
    """Show the contexts that `fingerprint live` or `socket` kept; without WATCH (a number), list the watches."""
    from configtron.db.store import Store
    from configtron.report.contexts import Writer

    with Store(settings().db, read_only=True) as store, opened(output_file) as out:
        if watch is None:
            out.write("".join(f"{line}\n" for line in _watches(store)))
            return DONE
        found = next((one for one in store.watches() if one.id == watch), None)
        if found is None:
            raise BadInput(f"watch {watch}: not in {store.path}; `configtron fingerprint contexts` lists them")
        Writer(form, out).write(store.contexts(found))
        return DONE if found.contexts else NOTHING


def _watches(store: Store) -> list[str]:
    rows = [("watch", "begun", "source", "status", "contexts")]
    rows += [(str(one.id), one.begun_at, one.source, _status(one), str(one.contexts)) for one in store.watches()]
    widths = [max(len(row[n]) for row in rows) for n in range(len(rows[0]))]
    return ["  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def _status(watch: Watch) -> str:
    """As kept; of one that never said how it ended nobody knows whether it still looks."""
    return "unfinished" if watch.status == "running" else watch.status
