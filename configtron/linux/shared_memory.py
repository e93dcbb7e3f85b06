# SPDX-License-Identifier: MIT
"""Memory that several processes share, with a lock that no killed process keeps.

Source     memfd_create(2); fcntl(2), "Advisory record locking": a record lock goes with its process, however that ends
"""

from __future__ import annotations

import fcntl
import mmap
import os
from types import TracebackType
from typing import Self

DOUBLE_BYTES = 8


class SharedMemory:
    """Zeros at first; pages that are never written take no memory. In a `with` block the process holds the lock.

    A process inherits `descriptor` and maps the same bytes. Eight bytes at a multiple of eight are written at once.
    """

    def __init__(self, descriptor: int, size: int) -> None:
        self.descriptor = descriptor
        self._map = mmap.mmap(descriptor, size)
        self._view = memoryview(self._map)
        self._parts = [self._view]

    @classmethod
    def made(cls, size: int) -> Self:
        """Return new memory of `size` bytes; a child inherits it by `pass_fds`. Errors: `OSError`."""
        descriptor = os.memfd_create("configtron")
        os.ftruncate(descriptor, size)
        return cls(descriptor, size)

    def doubles(self, offset: int, count: int) -> memoryview[float]:
        """Return `count` numbers from byte `offset` on, which is a multiple of eight."""
        part = self._view[offset : offset + count * DOUBLE_BYTES].cast("d")
        self._parts.append(part)  # type: ignore[arg-type]  # a view, whatever its items
        return part

    def octets(self, offset: int, count: int) -> memoryview[int]:
        """Return `count` bytes from byte `offset` on."""
        part = self._view[offset : offset + count]
        self._parts.append(part)
        return part

    def close(self) -> None:
        """Let go of the memory; the last process to do so frees it."""
        for part in reversed(self._parts):
            part.release()
        self._map.close()
        os.close(self.descriptor)

    def __enter__(self) -> Self:
        fcntl.lockf(self.descriptor, fcntl.LOCK_EX)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        fcntl.lockf(self.descriptor, fcntl.LOCK_UN)
