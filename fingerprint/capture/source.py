# SPDX-License-Identifier: MIT
"""Bytes of a capture, or of a log: a file, standard input, compressed or not."""

from __future__ import annotations

import bz2
import gzip
import lzma
import sys
import threading
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from io import BufferedReader, RawIOBase
from typing import IO, Any, Protocol, cast

from configtron.model.errors import BadInput, Missing

# First bytes of compressed files -> what reads them: gzip (RFC 1952), bzip2, xz; programs for zst (RFC 8878 3.1.1) and
# both formats of lz4.
MODULES: dict[bytes, Callable[[IO[bytes]], object]] = {
    b"\x1f\x8b": lambda file: gzip.GzipFile(fileobj=file), b"BZh": bz2.BZ2File, b"\xfd7zXZ\0": lzma.LZMAFile,
}  # fmt: skip
ZSTD = b"\x28\xb5\x2f\xfd"
PROGRAMS = {ZSTD: "zstd", b"\x04\x22\x4d\x18": "lz4", b"\x02\x21\x4c\x18": "lz4"}
MAGICS = (*MODULES, *PROGRAMS)
# The longest magic number.
LOOK = 6
# Compressed bytes taken at a time: four of them may stand for 128 kB (RFC 8878 3.1.1.2), so 64 MB at most.
COMPRESSED = 1 << 11
# Compressed bytes handed to a program at a time.
COPIED = 1 << 16
# Compressed data ended, or was none, before the capture did. An `OSError` of a decompressor has no number.
Broken = (EOFError, OSError, zlib.error, lzma.LZMAError)


class Readable(Protocol):
    """The interface that files, decompressors and pipes share."""

    def readinto1(self, into: memoryview, /) -> int:
        """Fill in the bytes of one read."""


class CaptureSource(RawIOBase):
    """A stream of bytes, for a `BufferedReader` too; `broken`: the reason why it ended early, "" if it did not;
    `place`: returns how many bytes of the file were taken."""

    def __init__(self, stream: Readable, finish: Callable[[], str] = str, place: Callable[[], int] = int) -> None:
        self._stream, self.place = stream, place
        self._finish = finish
        self.broken = ""
        self.ended = False

    def readable(self) -> bool:
        return True

    def readinto(self, into: Any, /) -> int:
        """Take the bytes of one read, so that a pipe's come at once; how many. Errors: `EOFError` where compressed data
        end early."""
        if not (count := self._read(memoryview(into))) and self.broken:
            raise EOFError("its compressed data are cut or damaged")
        return count

    def fill(self, into: memoryview) -> int:
        """Fill as much as there is; how much."""
        got = 0
        while got < len(into) and not self.ended:
            # Of several reads at once, an error in the last would take the others' bytes along.
            got += self._read(into[got:])
        return got

    def _read(self, into: memoryview) -> int:
        try:
            count = 0 if self.ended else self._stream.readinto1(into)
        except Broken as error:
            if getattr(error, "errno", None) is not None:
                raise
            count, self.broken = 0, "cut-compression"
        if not count and not self.ended:
            self.ended, self.broken = True, self.broken or self._finish()
        return count or 0


@contextmanager
def opened(path: str) -> Iterator[CaptureSource]:
    """The bytes of a file, "-" for standard input, decompressed."""
    try:
        file = sys.stdin.buffer if path == "-" else open(path, "rb")  # noqa: SIM115
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror}") from error
    try:
        with unpacked(file, path) as source:
            yield source
    finally:
        if path != "-":
            file.close()


@contextmanager
def unpacked(file: IO[bytes], name: str) -> Iterator[CaptureSource]:
    """The bytes of an open file, decompressed. Errors: `BadInput`; `Missing` without the program for it."""
    reader = file if isinstance(file, BufferedReader) else BufferedReader(cast(Any, file))
    try:
        magic = reader.peek(LOOK)[:LOOK]
    except OSError as error:
        raise BadInput(f"{name}: {error.strerror}") from error
    known = next((one for one in MAGICS if magic.startswith(one)), b"")
    if known in MODULES:
        yield CaptureSource(cast(Readable, MODULES[known](reader)), place=reader.tell)
    elif known:
        with _by_program(reader, PROGRAMS[known]) as source:
            yield source
    else:
        yield CaptureSource(reader, place=reader.tell)


class _Zstd:
    """A zst file of any number of frames, by the module zstandard; its own reader takes a cut file for a whole one."""

    def __init__(self, reader: BufferedReader, module: Any) -> None:
        self._reader, self._module = reader, module
        self._frame = module.ZstdDecompressor().decompressobj()
        self._left = b""
        self._ready = memoryview(b"")
        self._begun = False

    def readinto1(self, into: memoryview) -> int:
        """Return some bytes; 0 at the end."""
        while not self._ready:
            data = self._left or self._reader.read1(COMPRESSED)
            self._left = b""
            if not data:
                if self._begun:
                    raise EOFError("a zst frame is cut")
                return 0
            try:
                self._ready = memoryview(self._frame.decompress(data))
            except self._module.ZstdError as error:
                raise EOFError(str(error)) from error
            self._begun = True
            if self._frame.eof:
                self._left, self._begun = self._frame.unused_data, False
                self._frame = self._module.ZstdDecompressor().decompressobj()
        count = min(len(into), len(self._ready))
        into[:count] = self._ready[:count]
        self._ready = self._ready[count:]
        return count


@contextmanager
def _by_program(reader: BufferedReader, program: str) -> Iterator[CaptureSource]:
    """Decompress by a program; zst by the module zstandard, if it is installed."""
    try:
        module = import_module("zstandard") if program == "zstd" else None
    except ImportError:
        module = None
    if module is not None:
        yield CaptureSource(_Zstd(reader, module), place=reader.tell)
        return
    # Few captures need a program.
    import shutil
    from subprocess import DEVNULL, PIPE, Popen

    if shutil.which(program) is None:
        raise Missing(f"the file is compressed with {program}, which is not installed: apt-get install {program}")
    with Popen([program, "-dcq"], stdin=PIPE, stdout=PIPE, stderr=DEVNULL) as child:
        assert child.stdin is not None and child.stdout is not None
        feeder = threading.Thread(target=_feed, args=(reader, child.stdin), daemon=True)
        feeder.start()
        yield CaptureSource(
            cast(Readable, child.stdout), lambda: "cut-compression" if child.wait() else "", reader.tell
        )
        child.stdout.close()
        feeder.join()


def _feed(reader: BufferedReader, program: IO[bytes]) -> None:
    # The program ends early if the file is broken, or if the rest is not read.
    with suppress(BrokenPipeError), program:
        while some := reader.read(COPIED):
            program.write(some)
