"""Bytes of a capture: a file, standard input, compressed or not."""

from __future__ import annotations

import gzip
import shutil
import subprocess
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BufferedIOBase, BufferedReader, RawIOBase
from typing import IO, Any, cast

from configtron.errors import BadInput, Missing

# First bytes of compressed files (RFC 1952; RFC 8878 3.1.1).
GZIP, ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
# The longest magic number.
LOOK = 4
# Compressed data ended, or was none, before the capture did.
Broken = (EOFError, gzip.BadGzipFile, zlib.error)


class Source:
    """A stream of bytes; `broken` says why it ended early, "" if it did not."""

    def __init__(self, stream: IO[bytes] | BufferedIOBase | RawIOBase, finish: Callable[[], str] = str) -> None:
        self._stream = cast(Any, stream)
        self._finish = finish
        self.broken = ""
        self.ended = False

    def fill(self, into: memoryview) -> int:
        """Fill as much as there is; how much."""
        got = 0
        while got < len(into) and not self.ended:
            try:
                count = self._stream.readinto(into[got:])
            except Broken:
                count, self.broken = 0, "cut-compression"
            except Exception as error:
                # zstandard's own class of error, which is only known once that module is imported.
                if type(error).__name__ != "ZstdError":
                    raise
                count, self.broken = 0, "cut-compression"
            if not count:
                self.ended = True
                self.broken = self.broken or self._finish()
            got += count or 0
        return got


@contextmanager
def opened(path: str) -> Iterator[Source]:
    """The bytes of a file, "-" for standard input, decompressed."""
    try:
        file = sys.stdin.buffer if path == "-" else open(path, "rb")  # noqa: SIM115
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror}") from error
    reader = file if isinstance(file, BufferedReader) else BufferedReader(cast(Any, file))
    try:
        try:
            magic = reader.peek(LOOK)[:LOOK]
        except OSError as error:
            raise BadInput(f"{path}: {error.strerror}") from error
        if magic.startswith(GZIP):
            yield Source(gzip.GzipFile(fileobj=reader))
        elif magic == ZSTD:
            with _zstd(reader) as source:
                yield source
        else:
            yield Source(reader)
    finally:
        if path != "-":
            reader.close()


@contextmanager
def _zstd(reader: BufferedReader) -> Iterator[Source]:
    try:
        import zstandard
    except ImportError:
        with _zstd_command(reader) as source:
            yield source
    else:
        yield Source(zstandard.ZstdDecompressor().stream_reader(reader, read_across_frames=True))


@contextmanager
def _zstd_command(reader: BufferedReader) -> Iterator[Source]:
    """The program instead of the module: a file it can read itself; what comes through a pipe it reads from us."""
    if shutil.which("zstd") is None:
        raise Missing("zst files need the module zstandard or the program zstd: apt-get install zstd")
    reader.seek(0) if reader.seekable() else None
    with subprocess.Popen(["zstd", "-dcq"], stdin=reader, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as child:
        assert child.stdout is not None
        yield Source(child.stdout, lambda: "cut-compression" if child.wait() else "")
        child.stdout.close()
