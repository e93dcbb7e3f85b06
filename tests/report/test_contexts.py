# SPDX-License-Identifier: MIT
"""Sightings as text: every form has every feature, and the reasons where there is none."""

from __future__ import annotations

import csv
import io
import json

from configtron.fingerprint.features import Sighting
from configtron.model.nouns import Context
from configtron.report.contexts import TABLE, SightingWriter, closing, summed

FULL = Sighting(
    "live", 1_700_000_000_123_456_789, "192.0.2.1", 443, "2001:db8:1::9", 40_000, "out", "fin", 1.25, 9000, 100, True,
    Context(8000.5, 40.25, 0.0125, "", "2001:db8:1::/48", 64500, "DE", "phone", 39.5, 0.25, 7000.0, 180.5, 2.0,
            65536.0, None, 4.5, 3.0),
)  # fmt: skip
EMPTY = Sighting(
    "socket", 0, "192.0.2.1", 80, "", 0, "", "open", None, 0, 0, False, Context(prefix="192.0.2.0/24"),
    (("rtt_ms", "no-sample"), ("asn", "no-file")),
)  # fmt: skip


def written(kind: str, *seen: Sighting, silent: bool = False) -> str:
    out = io.StringIO()
    writer = SightingWriter(kind, out, silent=silent)
    writer.write(seen[:1])
    writer.write(seen[1:])
    writer.close(closing(3, "live", 1.5, {"frames": 9, "dropped-by-capture": 2, "udp": 0}))
    return out.getvalue()


def test_json_lines() -> None:
    full, empty, last = (json.loads(line) for line in written("jsonl", FULL, EMPTY).splitlines())
    assert full == {
        "schema": "configtron.context/1", "source": "live", "at": 1700000000.1234567, "way": "out", "ended": "fin",
        "age_s": 1.25, "bytes_out": 9000, "bytes_in": 100, "bounded": True, "unknown": {},
        "local": {"address": "192.0.2.1", "port": 443}, "remote": {"address": "2001:db8:1::9", "port": 40_000},
        "context": {"bandwidth_kbps": 8000.5, "delivery_kbps": 7000.0, "rtt_ms": 40.25, "min_rtt_ms": 39.5,
                    "loss": 0.0125, "jitter_ms": 0.25, "queue_ms": 180.5, "loss_run": 2.0, "window_bytes": 65536.0,
                    "ack_gap_ms": 4.5, "reordering": 3.0,
                    "prefix": "2001:db8:1::/48", "asn": 64500, "region": "DE", "device": "phone"},
    }  # fmt: skip
    assert empty["context"] == {"prefix": "192.0.2.0/24"} and "remote" not in empty and "age_s" not in empty
    assert empty["unknown"] == {"rtt_ms": "no-sample", "asn": "no-file"}
    assert last == {"schema": "configtron.watch/1", "watch": 3, "source": "live", "elapsed_s": 1.5, "dropped": 2,
                    "counts": {"frames": 9, "dropped-by-capture": 2}}  # fmt: skip


def test_csv() -> None:
    full, empty = csv.DictReader(io.StringIO(written("csv", FULL, EMPTY)))
    assert full["at"] == "1700000000.123456789" and full["bounded"] == "1" and full["asn"] == "64500"
    assert full["remote"] == "2001:db8:1::9" and full["loss"] == "0.0125" and full["device"] == "phone"
    assert full["queue_ms"] == "180.5" and full["delivery_share"] == empty["queue_ms"] == ""
    assert empty["rtt_ms"] == empty["asn"] == empty["remote"] == empty["remote_port"] == empty["age_s"] == ""
    assert written("csv").count("\n") == 1, "a header without rows"


def test_table() -> None:
    head, full, empty = written("table", FULL, EMPTY).splitlines()
    assert [name for name, _ in TABLE if name not in head] == []
    for text in ("443", "2001:db8:1::/48", "40.250", "39.500", "1.25 %", ">= 8000", "7000", "64500", "DE", "phone"):
        assert text in full
    assert empty.split()[:4] == ["80", "192.0.2.0/24", "-", "open"] and empty.split()[4:] == ["-"] * 9
    assert head.index("device") == full.index("phone"), "columns stand under their names"
    assert written("table") == ""


def test_another_program_writes() -> None:
    assert written("csv", FULL, silent=True) == "" and written("jsonl", FULL, silent=True).count("\n") == 1


def test_a_line_for_people() -> None:
    counts = {"frames": 9, "tcp": 8, "connections": 2, "dropped-by-capture": 3, "udp": 1}
    assert summed("live", counts) == "9 frames, 8 tcp, 2 connections; 1 udp; 3 dropped"
    assert summed("socket", {"connections": 2}) == "2 connections reported; 0 dropped"
