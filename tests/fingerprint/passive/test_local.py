# SPDX-License-Identifier: MIT
"""Which end of a connection is here, and what is kept of those that are not."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pytest

from configtron.db.rows import context_row
from configtron.fingerprint.features import AddressFacts, Sighting
from configtron.fingerprint.passive.connection_report import ConnectionReport, report_connections
from configtron.fingerprint.passive.gathering import Gathering
from configtron.fingerprint.passive.local import lost, path_of, sighted
from configtron.report.contexts import form
from tests.fingerprint.passive.test_foreign import proven
from tests.support import capture_bytes as write
from tests.support.made_capture import Conversation
from tests.support.read_capture import gathered

CLIENT, SERVER = "192.0.2.1", "198.51.100.2"


def connection(folder: Path, conversation: Conversation) -> ConnectionReport:
    path = folder / "conversation.pcap"
    path.write_bytes(write.pcap(sorted(conversation.frames, key=lambda frame: frame[0]), nano=True))
    (batch,) = gathered(path, Gathering(trips=True))
    (one,) = report_connections(batch, [str(path)])
    return one


def seen(folder: Path, *here: str, opened: bool = True) -> Sighting:
    """The client's port is below the server's, so without a SYN the client may be taken for the server."""
    return sighted(connection(folder, proven(port=22, opened=opened)), frozenset(here), lambda _: AddressFacts())


@pytest.mark.parametrize("opened", [True, False])
@pytest.mark.parametrize(("here", "other"), [(CLIENT, "198.51.100.0/24"), (SERVER, "192.0.2.0/24")])
def test_the_end_that_is_here_is_reported(tmp_path: Path, here: str, other: str, opened: bool) -> None:
    found = seen(tmp_path, here, opened=opened)
    assert (found.local, found.context.prefix) == (here, other)
    assert form(found)["local"] == {"address": here, "port": found.local_port}


@pytest.mark.parametrize("opened", [True, False])
def test_a_router_keeps_nobodys_address(tmp_path: Path, opened: bool) -> None:
    """Neither end is here: both are clients of other hosts, and the server's side may be a guess."""
    found = seen(tmp_path, "203.0.113.1", opened=opened)
    assert found.context.prefix in ("192.0.2.0/24", "198.51.100.0/24")
    kept = " ".join(map(str, context_row(found)))
    assert CLIENT not in kept and SERVER not in kept
    assert form(found)["local"] == {"port": found.local_port}


def test_where_both_ends_are_here_the_server_is_tuned(tmp_path: Path) -> None:
    assert seen(tmp_path, CLIENT, SERVER).local == SERVER


def test_every_repeat_is_a_loss_unless_the_capture_lost_frames(tmp_path: Path) -> None:
    """Repeats after a timeout, after duplicate ACKs, and those of unknown cause."""
    numbers = {"server_data": 40, "server_payload": 0, "server_rto": 1, "server_fast": 2, "server_other": 1}
    one = connection(tmp_path, proven())._replace(numbers=defaultdict(lambda: None, numbers))
    assert lost(one, "server") == 4 / 40
    assert path_of(one, "server", "out", tainted=False).loss == 4 / 40
    path = path_of(one, "server", "out", tainted=True)
    assert path.loss is None and ("loss", "drops") in path.unknown
    one.numbers["server_data"] = 0
    path = path_of(one, "server", "out", tainted=True)
    assert path.loss is None and ("loss", "no-data") in path.unknown
