# SPDX-License-Identifier: MIT
"""Runs in a guest, by its path: a shard, as `learn measure` has it measured, and every frame that the router saw of it.

    python benchmarks/testbed_capture.py CLIENT PLAYER FOLDER

FOLDER/frames.pcap: nanosecond pcap (magic number 0xa1b23c4d), Ethernet, in the order in which the router's kernel had
them: where they came in, and where they went out behind the link's queues.
"""

from __future__ import annotations

import select
import socket
import struct
import sys
import threading
from pathlib import Path

from configtron.model.errors import DONE
from configtron.service import shard_guest

FRAMES = "frames.pcap"
# <linux/if_ether.h>, <asm-generic/socket.h>, as new as time_t of 64 bits
ETH_P_ALL, SO_TIMESTAMPNS = 3, 35
# struct pcap_file_header, struct pcap_sf_pkthdr: magic, version 2.4, zone, accuracy, longest, Ethernet
HEAD = struct.pack("=IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 1 << 16, 1)
FRAME = struct.Struct("=IIII")
TIMESPEC = struct.Struct("=qq")
# Frames that wait while Python is slow in real time; in virtual time none does.
ROOM_BYTES = 1 << 26


class Capture(threading.Thread):
    """All frames of this namespace, on devices that come later too."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path, self.count = path, 0
        self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
        self._socket.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, ROOM_BYTES)
        self._over, self._ends = socket.socketpair()

    def run(self) -> None:
        with self._path.open("wb") as out:
            out.write(HEAD)
            while self._is_more():
                frame, ancillary, _, _ = self._socket.recvmsg(1 << 16, 64)
                ((_, _, stamp),) = ancillary
                out.write(FRAME.pack(*TIMESPEC.unpack(stamp), len(frame), len(frame)) + frame)
                self.count += 1

    def _is_more(self) -> bool:
        readable, _, _ = select.select([self._socket, self._ends], [], [])
        return self._socket in readable

    def stop(self) -> None:
        """All frames so far are written."""
        self._over.send(b"x")
        self.join()


def main(words: list[str]) -> int:
    capture = Capture(Path(words[2]) / FRAMES)
    capture.start()
    code = shard_guest.main(words)
    capture.stop()
    return code if capture.count else DONE + 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
