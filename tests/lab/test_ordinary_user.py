# SPDX-License-Identifier: MIT
"""The lab as an ordinary user: the same verdicts as root's, by a user namespace; where there is none, one line."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from configtron.lab.uml.enclosure import switched_off
from configtron.lab.uml.kernel import kernel_folder
from configtron.lab.uml.user_mode_linux import UmlVirtual
from configtron.model.errors import DONE, PRIVILEGE
from tests.support import ROOT

# Any number but 0: a user that /etc/passwd need not know.
USER = 1000
ORDINARY = ("setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups")
LAB = ("probe", "alexa-top1k", "--lab", "--sites", "2", "--seed", "5", "--profile", "quick", "-f", "jsonl")


@pytest.fixture
def home() -> Iterator[Path]:
    """A home with the kernel in its cache, in /tmp, since pytest's folders are root's alone."""
    virtual = UmlVirtual()
    if reason := virtual.available():
        pytest.skip(reason)
    # by env, since setpriv itself still has root's rights
    command = [*ORDINARY, "env", sys.executable, str(ROOT / "tests" / "__init__.py")]
    if subprocess.run(command, capture_output=True).returncode:
        pytest.skip(f"an ordinary user cannot run {sys.executable} or read this checkout")
    virtual.kernel()
    with tempfile.TemporaryDirectory(prefix="configtron-ordinary-") as folder:
        shutil.copytree(kernel_folder(), Path(folder) / ".cache" / "configtron" / kernel_folder().name)
        yield Path(folder)


def as_ordinary(home: Path, *before: str) -> subprocess.CompletedProcess[str]:
    """Probe as an ordinary user, to whom the home belongs from now on."""
    subprocess.run(["chown", "--recursive", f"{USER}:{USER}", str(home)], check=True)
    return probe(home, *ORDINARY, *before)


def probe(home: Path, *before: str) -> subprocess.CompletedProcess[str]:
    """Probe a lab of two sites with the caches and the database in that home."""
    environment = {"PATH": os.environ["PATH"], "HOME": str(home), "PYTHONPATH": str(ROOT), "NO_COLOR": "1"}
    command = [*before, sys.executable, "-m", "configtron", *LAB]
    return subprocess.run(command, env=environment, cwd="/", capture_output=True, text=True, timeout=300)


@pytest.mark.lab
@pytest.mark.root
def test_an_ordinary_user_gets_roots_verdicts(home: Path) -> None:
    ours = probe(home)
    assert ours.returncode == DONE, ours.stderr
    shutil.rmtree(home / ".local")
    theirs = as_ordinary(home)
    assert theirs.returncode == DONE, theirs.stderr
    assert {path.stat().st_uid for path in home.rglob("*.pcapng")} == {USER}
    assert theirs.stdout == ours.stdout and len(ours.stdout.splitlines()) == 10


@pytest.mark.lab
@pytest.mark.root
def test_where_user_namespaces_are_off_one_line_says_so(home: Path) -> None:
    """The limit is that of a namespace in which the user is no root either."""
    off = 'echo 0 >/proc/sys/user/max_user_namespaces; exec "$@"'
    inside = ("unshare", "--user", "--map-current-user", "--keep-caps", "sh", "-c", off, "sh")
    refused = as_ordinary(home, *inside)
    assert (refused.returncode, refused.stdout, refused.stderr.count("\n")) == (PRIVILEGE, "", 1)
    assert "user namespaces, which are off here (sysctl user.max_user_namespaces is 0)" in refused.stderr
    assert refused.stderr.count("sysctl") == 1


@pytest.mark.lab
@pytest.mark.root
def test_where_ptrace_is_refused_one_line_says_so(home: Path) -> None:
    """A process that is traced already can have no second tracer."""
    refused = as_ordinary(home, "strace", "-f", "-qq", "-o", "/dev/null")
    assert (refused.returncode, refused.stdout, refused.stderr.count("\n")) == (PRIVILEGE, "", 1)
    assert "needs ptrace(2), which is refused here" in refused.stderr


@pytest.mark.parametrize(
    ("name", "value", "found"),
    [
        ("user/max_user_namespaces", "96365", ""),
        ("kernel/unprivileged_userns_clone", "0", "sysctl kernel.unprivileged_userns_clone is 0"),
        ("kernel/unprivileged_userns_clone", "1", ""),
        (
            "kernel/apparmor_restrict_unprivileged_userns", "1",
            "sysctl kernel.apparmor_restrict_unprivileged_userns is 1",
        ),
    ],
)  # fmt: skip
def test_the_sysctl_that_forbids_is_named(tmp_path: Path, name: str, value: str, found: str) -> None:
    path = tmp_path / name
    path.parent.mkdir()
    path.write_text(value + "\n")
    assert switched_off(tmp_path) == found
