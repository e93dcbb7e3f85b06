# SPDX-License-Identifier: MIT
"""`make packages` in a root of its own: what packages enable is not enabled afterwards, what was enabled stays so."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.support import ROOT

# What the package's scripts do where there is no systemctl: deb-systemd-helper, update-rc.d.
APT = """#!/bin/sh
case $* in *install*) ;; *) exit 0 ;; esac
cat "$ROOT/usr/sbin/policy-rc.d" >"$ROOT/policy-seen"
mkdir -p "$ROOT/etc/systemd/system/multi-user.target.wants" "$ROOT/etc/rc2.d" "$ROOT/etc/rc3.d" "$ROOT/etc/rcS.d"
ln -sf /lib/systemd/system/caddy.service "$ROOT/etc/systemd/system/multi-user.target.wants/caddy.service"
ln -sf /lib/systemd/system/h2o.service "$ROOT/etc/systemd/system/multi-user.target.wants/h2o.service"
ln -sf ../init.d/h2o "$ROOT/etc/rc2.d/S01h2o"
ln -sf ../init.d/h2o "$ROOT/etc/rc3.d/S01h2o"
ln -sf ../init.d/procps "$ROOT/etc/rcS.d/S01procps"
[ -z "$APT_KILLS" ] || kill -9 0
exit ${APT_CODE:-0}
"""
STUBS = {
    "apt-get": APT, "apt-cache": "#!/bin/sh\n[ $LC_ALL = C ] && echo '  Candidate: 1.0' || echo '  Aday: 1.0'\n",
    "dpkg-query": "#!/bin/sh\nexit 1\n", "id": "#!/bin/sh\necho 0\n",
}  # fmt: skip


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A Debian without our packages, on which the administrator has enabled cron."""
    made = tmp_path / "root"
    wants = made / "etc" / "systemd" / "system" / "multi-user.target.wants"
    for folder in (wants, made / "etc" / "rc2.d", made / "usr" / "sbin", tmp_path / "bin"):
        folder.mkdir(parents=True)
    (wants / "cron.service").symlink_to("/lib/systemd/system/cron.service")
    (made / "etc" / "rc2.d" / "S01cron").symlink_to("../init.d/cron")
    for name, text in STUBS.items():
        (tmp_path / "bin" / name).write_text(text)
        (tmp_path / "bin" / name).chmod(0o755)
    return made


def packages(root: Path, **more: str) -> subprocess.CompletedProcess[str]:
    own = {"PATH": f"{root.parent / 'bin'}:{os.environ['PATH']}", "ROOT": str(root), "LC_ALL": "tr_TR.UTF-8"}
    return subprocess.run([ROOT / ".ci" / "debian"], env={**os.environ, **own, **more},
                          capture_output=True, text=True, check=False,
                          start_new_session=True)  # fmt: skip


def links(root: Path) -> set[str]:
    return {path.name for path in root.rglob("*") if path.is_symlink()}


LEFT = {"cron.service", "S01cron", "K01h2o", "S01procps"}


@pytest.mark.slow
def test_no_service_is_enabled_or_started_and_the_policy_is_put_back(root: Path) -> None:
    policy = root / "usr" / "sbin" / "policy-rc.d"
    policy.write_text("the administrator's\n")
    done = packages(root)
    assert done.returncode == 0 and "their services are not started and not enabled" in done.stdout
    assert "  not enabled: caddy.service h2o.service\n" in done.stdout and links(root) == LEFT
    assert "exit 101" in (root / "policy-seen").read_text() and policy.read_text() == "the administrator's\n"


@pytest.mark.slow
def test_a_failure_puts_it_all_back_too(root: Path) -> None:
    done = packages(root, APT_CODE="100")
    assert done.returncode == 4 and not (root / "usr" / "sbin" / "policy-rc.d").exists() and links(root) == LEFT


@pytest.mark.slow
@pytest.mark.parametrize("before", [None, "the administrator's\n"])
def test_the_policy_of_a_killed_run_does_not_stay(root: Path, before: str | None) -> None:
    policy = root / "usr" / "sbin" / "policy-rc.d"
    if before:
        policy.write_text(before)
    assert packages(root, APT_KILLS="1").returncode == -9
    assert "Written by configtron" in policy.read_text()
    assert packages(root).returncode == 0
    assert (policy.read_text() if policy.exists() else None) == before
