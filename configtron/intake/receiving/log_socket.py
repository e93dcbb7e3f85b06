# SPDX-License-Identifier: MIT
"""The UNIX datagram socket that web servers log to: lines with the times of their arrival.

A server drops a line that finds the queue full, and no page waits for it. The queue holds `queue_length` lines, by
default 10: raise it before this socket is made (`WANTED_QUEUE`).
"""

from __future__ import annotations

import errno
import grp
import json
import os
import socket
import stat
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from configtron.intake.pageloads.log_lines import LONGEST_BYTES, TEST_LINE
from configtron.linux.proc import path_holder
from configtron.model.errors import Missing, Refused

# Lines of a second at ten thousand requests a second; the kernel counts twice what it is asked for.
BUFFER_BYTES = 8 << 20
QUEUE = Path("/proc/sys/net/unix/max_dgram_qlen")
# A tenth of a second of five thousand pages.
WANTED_QUEUE = 512
# Root and the web server's group write to the socket; the folder's group is that of every socket made in it.
SOCKET_MODE, FOLDER_MODE = 0o660, 0o2750
# Lines that are read in one go, so that records are read in between.
AT_ONCE = 2_000
# A service may not make its folder: systemd does, by what `learn serve --setup` wrote.
_MADE_BY_SYSTEMD = "make its folder by systemd-tmpfiles --create configtron-serve.conf, or choose another path"
_REMEDIES = {
    errno.ENOENT: "create its folder",
    **dict.fromkeys((errno.EPERM, errno.EACCES, errno.EROFS), _MADE_BY_SYSTEMD),
}


def queue_length(setting: Path = QUEUE) -> int:
    """Return how many lines the kernel queues for a socket made now; the file's absence means the least."""
    try:
        return int(setting.read_text())
    except OSError:
        return 10


def short_queue(setting: Path = QUEUE) -> str:
    """Return that the queue is short and what to do about it, one line; "" if it is long enough."""
    length = queue_length(setting)
    if length >= WANTED_QUEUE:
        return ""
    return f"the kernel queues {length} log lines; run: sysctl -w net.unix.max_dgram_qlen={WANTED_QUEUE}"


class LogSocket:
    """Bound to a path, which is taken over from a predecessor that died; its folder is made if only that is absent.

    group   GID that may write to it, the web server's; None: that of the folder or of this process

    Errors: `Missing`; `Refused` where another process reads it.
    """

    def __init__(self, path: Path, group: int | None = None) -> None:
        self.path = path
        self._testers: list[str | bytes] = []
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
        try:
            self._take_over()
            _make_folder(path.parent, group)
            self._socket.bind(str(path))
            _hand_to(path, group)
            path.chmod(SOCKET_MODE)
        except OSError as error:
            self._socket.close()
            why = "a symbolic link to nothing" if path.is_symlink() and not path.exists() else error.strerror or error
            remedy = _REMEDIES.get(error.errno or 0, "choose another path")
            raise Missing(f"log lines cannot be received at {path}: {why}; {remedy}") from error
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, 33, BUFFER_BYTES)  # SO_RCVBUFFORCE
        except PermissionError:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER_BYTES)

    def _take_over(self) -> None:
        """Remove a socket that no process reads. Errors: `OSError`; `Missing` where it is no socket; `Refused` where
        one does."""
        try:
            if not stat.S_ISSOCK(self.path.stat().st_mode):
                raise Missing(f"{self.path} is there and no socket; choose another path")
        except FileNotFoundError:
            return
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as probe:
            try:
                probe.connect(str(self.path))
            except ConnectionRefusedError:
                self.path.unlink()
                return
        holder = path_holder(self.path) or "another process"
        raise Refused(f"{holder} receives log lines at {self.path}; stop it first")

    def fileno(self) -> int:
        """For an event loop."""
        return self._socket.fileno()

    def lines(self) -> Iterator[tuple[bytes, int, int]]:
        """Yield the lines that wait: bytes, arrival by CLOCK_BOOTTIME and by the wall clock (ns)."""
        for _ in range(AT_ONCE):
            try:
                data, sender = self._socket.recvfrom(LONGEST_BYTES + 1)
            except BlockingIOError:
                return
            if data == TEST_LINE and sender:
                self._testers.append(sender)
            yield data, time.clock_gettime_ns(time.CLOCK_BOOTTIME), time.time_ns()

    def access(self) -> str:
        """Return the socket's path with its group and mode, or with the error if it is gone."""
        try:
            found = self.path.stat()
        except OSError as error:
            return f"{self.path} ({error.strerror})"
        return f"{self.path} (group {_name(found.st_gid)}, mode {found.st_mode & 0o7777:04o})"

    def answer(self, counts: Mapping[str, int]) -> None:
        """Send counts of lines to each process that sent a test line."""
        while self._testers:
            with suppress(OSError):
                self._socket.sendto(json.dumps(counts).encode(), self._testers.pop())

    def close(self) -> None:
        """Close the socket and remove its path."""
        self._socket.close()
        try:
            os.unlink(self.path)
        except FileNotFoundError:
            pass


def _make_folder(folder: Path, group: int | None) -> None:
    """Make the folder if it is absent; give it to the group if it was made for the socket. Errors: `OSError`."""
    if not folder.exists():
        folder.mkdir()
        folder.chmod(FOLDER_MODE)
    if stat.S_IMODE(folder.stat().st_mode) == FOLDER_MODE:
        _hand_to(folder, group)


def _hand_to(path: Path, group: int | None) -> None:
    """Give a path to a group, if this process may; `access` shows the result."""
    if group is not None and path.stat().st_gid != group:
        # EPERM; EINVAL for a group that a container does not map.
        with suppress(OSError):
            os.chown(path, -1, group)


def _name(group: int) -> str:
    try:
        return grp.getgrgid(group).gr_name
    except KeyError:
        return str(group)
