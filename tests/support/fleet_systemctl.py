#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Stands in for systemctl in a root tree without systemd: starts a unit's program as the unit's text has it, same user
and same words, and keeps its process number. Nothing confines it: tests/tune/test_units.py does that. A tree has
no control groups, so an agent's driver is `route`, by name: unnamed, it takes no map that is for some ports."""

from __future__ import annotations

import os
import pwd
import shlex
import subprocess
import sys
from pathlib import Path

UNITS, KEPT = Path("/etc/systemd/system"), Path("/run/started")


def setting(unit: str, name: str, default: str = "") -> str:
    lines = (UNITS / unit).read_text().splitlines()
    return next((line.partition("=")[2] for line in lines if line.startswith(name + "=")), default)


def active(unit: str) -> bool:
    path = KEPT / unit
    return path.exists() and Path(f"/proc/{path.read_text()}").exists()


def start(unit: str) -> None:
    KEPT.mkdir(exist_ok=True)
    user = pwd.getpwnam(setting(unit, "User", "root"))
    if folder := setting(unit, "StateDirectory"):
        state = Path("/var/lib", folder)
        state.mkdir(mode=0o700, exist_ok=True)
        os.chown(state, user.pw_uid, user.pw_gid)
    command = setting(unit, "ExecStart").replace(" tune agent ", " tune --driver route agent ")
    with (KEPT / f"{unit}.log").open("ab") as log:
        process = subprocess.Popen(
            shlex.split(command), user=user.pw_uid, group=user.pw_gid, extra_groups=[], stdout=log,
            stderr=log, stdin=subprocess.DEVNULL, start_new_session=True, cwd="/",
            env={"PATH": os.environ["PATH"], "HOME": user.pw_dir},
        )  # fmt: skip
    (KEPT / unit).write_text(str(process.pid))


def main(words: list[str]) -> int:
    words = [word for word in words if not word.startswith("-")]
    verb, unit = words[0], (words[1:] or [""])[0]
    enabled = KEPT / f"{unit}.enabled"
    if verb == "show":
        known = "loaded" if (UNITS / unit).exists() else "not-found"
        print(f"LoadState={known}\nActiveState={'active' if active(unit) else 'inactive'}")
    elif verb == "enable":
        KEPT.mkdir(exist_ok=True)
        enabled.touch()
    elif verb == "is-enabled":
        print("enabled" if enabled.exists() else "disabled")
        return 0 if enabled.exists() else 1
    elif verb == "is-active":
        return 0 if active(unit) else 3
    elif verb == "start" and not active(unit):
        start(unit)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
