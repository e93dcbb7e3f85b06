# SPDX-License-Identifier: MIT
"""What goes from the root reader to the process without privilege: whole, typed, and without addresses."""

from __future__ import annotations

import pytest

from configtron.intake.pageloads.request_join import EndedConnection
from configtron.model.close_records import BadEndings
from configtron.model.errors import BadInput
from tests.support.pageloads import PREFIX, T0, closed, describe, line, opened, requests, token

batch_bytes = pytest.importorskip("configtron.service.outcomes.batch_bytes", reason="needs msgspec: configtron[fleet]")
ReaderBatch = pytest.importorskip("configtron.service.outcomes.root_reader").ReaderBatch


def test_a_batch_comes_back_whole_and_has_no_address() -> None:
    join, record = requests(), opened()
    join.record(record)
    join.datagram(line(token(1), T0 + 10**9), T0 + 10**9, T0 + 10**9)
    joined = join.advance(T0 + 10**9, T0 + 10**9)
    join.record(closed(record, T0 + 2 * 10**9, 29_000)._replace(ending="reset"))
    batch = ReaderBatch(tuple(joined), tuple(join.ended()), join.ended_badly())
    assert batch.joined[0].drawn == describe(record, bytes([198, 51, 100, 9]))
    assert batch.ended == (EndedConnection(1, 29_000, None, 0.0, False),)
    assert batch.bad == BadEndings.of((PREFIX, T0 + 2 * 10**9))
    data = batch_bytes.encoded(batch)
    assert batch_bytes.decoded(data) == batch
    assert not any(one in data for one in (b"198.51.100.9", bytes([198, 51, 100, 9]), (50_000).to_bytes(2, "big")))


def test_endings_whose_columns_differ_in_length_are_refused() -> None:
    for bad in (BadEndings(bytes(16), bytes(16)), BadEndings(bytes(17), bytes(8)), BadEndings(b"", bytes(7))):
        with pytest.raises(BadInput, match="differ in length"):
            batch_bytes.decoded(batch_bytes.encoded(ReaderBatch(bad=bad)))


@pytest.mark.parametrize("data", [b"", b"\x93", b"\x93\x91\x01\x90\x90", b"\xc1"])
def test_other_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(BadInput, match="no batch of the root reader"):
        batch_bytes.decoded(data)
