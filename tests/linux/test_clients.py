# SPDX-License-Identifier: MIT
"""One client for each kernel interface: nothing but configtron/linux opens it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support import ROOT
from tests.support.sources import sources

# An interface's mark in a source -> the files that may have it.
INTERFACES = {
    "a netlink socket": (re.compile(r"socket\.AF_NETLINK\b"), {"configtron/linux/netlink.py"}),
    "netlink's message header": (re.compile(r'Struct\("=IHHII"\)'), {"configtron/linux/netlink.py"}),
    "an inet_diag request": (re.compile(r'"=BBBx ?I'), {"configtron/linux/sock_diag.py"}),
    "netem's options": (re.compile(r"struct tc_netem_qopt:"), {"configtron/linux/qdisc.py"}),
    "a receive filter": (re.compile("HxxxxxxP"), {"configtron/linux/packet.py"}),
    "libbpf": (re.compile(r"libbpf\.so"), {"configtron/linux/libbpf.py"}),
    "a process's descriptors": (re.compile(r"/proc/\{\w+\}/fd"), {"configtron/linux/proc.py"}),
    "/proc/net/tcp": (re.compile(r"thread-self/net/?[\"{]"), {"configtron/linux/proc.py"}),
    "pidfd_getfd": (re.compile(r"\b438\b"), {"configtron/linux/proc.py"}),
}


def users(mark: re.Pattern[str], files: list[Path]) -> set[str]:
    return {str(file.relative_to(ROOT)) for file in files if mark.search(file.read_text())}


@pytest.mark.parametrize("interface", INTERFACES)
def test_one_client_opens_it(interface: str) -> None:
    mark, homes = INTERFACES[interface]
    assert users(mark, [file for _, file in sources()]) == homes
