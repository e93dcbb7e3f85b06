# SPDX-License-Identifier: MIT
"""What isolation says where the host does not let it work; with real kernels it is tested in test_live.py."""

import subprocess

import pytest

from configtron.model.errors import Missing
from configtron.probe.wire.isolation import sweep_tables


def test_without_privilege_the_way_out_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(words: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess(words, 1, "", "netlink: Error: Operation not permitted\n")

    monkeypatch.setattr(subprocess, "run", refuse)
    with pytest.raises(Missing, match=r"^nft: netlink: Error: Operation not permitted; .* run as root"):
        sweep_tables("")
