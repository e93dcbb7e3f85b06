# SPDX-License-Identifier: MIT
"""The gate takes every kind of report for one, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.kmod import gate, nets, schemes
from tests.support.kmod.inside import BEGIN, FORGIVEN, OURS

REPORTS = {
    "BUG: KASAN: slab-use-after-free in planted_use_after_free+0x5d/0x70 [planted]",
    "WARNING: suspicious RCU usage",
    "WARNING: possible circular locking dependency detected",
    "BUG: sleeping function called from invalid context at kernel/time/timer.c:2540",
    "WARNING: CPU: 0 PID: 77 at kmod/main.c:88 ct_exit+0x31/0x40 [configtron]",
    "refcount_t: underflow; use-after-free.",
    "general protection fault, probably for non-canonical address 0xdffffc0000000000",
    "INFO: task rmmod:99 blocked for more than 120 seconds.",
    "Kernel panic - not syncing: Fatal exception in interrupt",
}
ONE = "WARNING: CPU: 0 PID: 1 at a.c:1 ct_a+0x1/0x2 [configtron]\n ct_a\n---[ end trace 0000000000000000 ]---\n"
USED = {"cc": "bbr", "ecn": "off", "connections": 5, "ecn agreed": 0, "ran": {"bbr": 5}, "before": [1, 3],
        "after": [1, 3], "alive": 0}  # fmt: skip


@pytest.mark.parametrize("line", sorted(REPORTS))
@pytest.mark.parametrize("stamp", ["", "[   12.345678] ", "[   12.345678][   T99] "])
def test_a_report_is_seen(line: str, stamp: str) -> None:
    (report,) = gate.reports(f"{BEGIN}\n{stamp}{line}\n{stamp}Call Trace:\n{stamp} ct_exit+0x31/0x40 [configtron]\n")
    assert report.startswith(line) and "ct_exit" in report


def test_what_is_no_report_and_what_are_two() -> None:
    """A booting kernel's words do not count; a log that ends too soon is a report."""
    assert gate.reports(f"WARNING: a driver\n{BEGIN}\nconfigtron: loading out-of-tree module taints kernel.\n") == []
    assert gate.reports("Booting from ROM..") == ["the log ends before the stress began"]
    assert [report.count("end trace") for report in gate.reports(f"{BEGIN}\n{ONE}usual words\n{ONE}")] == [1, 1]


def test_a_torn_net_is_reported() -> None:
    net = nets.NETS["uml"]
    lines = [nets.PLANTED[mistake] for mistake in net.catches if mistake != "leak"]
    whole, passed = ({"rows": [{"cc": name, "result": result} for name in nets.FAULTY]}
                     for result in ("references", "ok"))  # fmt: skip
    assert nets.torn(net, nets.Catch(0, [{"leaked": ["  a planted leak"]}, whole], lines, "")) == []
    assert nets.torn(net, nets.Catch(0, [passed], lines[1:], "")) == ["rcu", "leak", *nets.FAULTY]
    assert {mistake for net in nets.NETS.values() for mistake in net.catches} == set(nets.PLANTED)


@pytest.mark.parametrize(
    ("wrong", "well"),
    [({}, True), ({"after": [2, 3]}, False), ({"after": [1, 4]}, False), ({"alive": 1}, False),
     ({"ran": {"reno": 5}}, False), ({"ecn agreed": 5}, False)],
)  # fmt: skip
def test_a_congestion_control_that_loses_references_is_not_well(wrong: dict[str, Any], well: bool) -> None:
    row = {**USED, **wrong}
    row["result"] = schemes.verdict(row, "bbr", ecn=False)
    assert nets.Catch(0, [{"rows": [row]}], [], "").well() == well


def test_only_our_leaks_are_ours() -> None:
    assert OURS.search("    [<0>] ct_version_new+0x2a/0x90 [configtron]") and OURS.search("  planted_leak+0x1")
    assert OURS.search("    [<0>] 0x00000000a0832123") and OURS.search("hex dump\n  backtrace (crc 1befd5):\n")
    name = 'comm "failnth", pid 62\n  hex dump\n    63 74 5f 70 72 65 66 69 78 00 73 64 00 00 00 00  ct_prefix.sd....\n'
    assert FORGIVEN.search(name) and not FORGIVEN.search(name.replace("failnth", "churn"))
    assert not OURS.search("    [<0>] __kmalloc_noprof+0x1\n    [<0>] direct_io_act+0x2\n tcp_v4_connect+0x1")
