# SPDX-License-Identifier: MIT
"""Evidence read from its beginning, each trace with the place where it lies; gz too, for recordings that are kept."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, cast

from configtron.model import pcapng
from configtron.model.errors import BadInput
from configtron.model.nouns import Trace
from configtron.probe.wire.pcap import TraceLocation, check_opening, traces_in


def read_located(path: Path) -> Iterator[tuple[Trace, TraceLocation]]:
    """All traces of a file, which may be compressed (gz), and where each lies."""
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            check_opening(cast(IO[bytes], file), path)
            yield from traces_in(pcapng.blocks(cast(IO[bytes], file)), path.name)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise BadInput(f"{path}: not a whole gz file ({error})") from None
