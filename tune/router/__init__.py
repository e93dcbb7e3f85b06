# SPDX-License-Identifier: MIT
"""The server in front takes a new map: written whole or not at all, checked by the server itself, the old one kept.

Order      The new map is written beside the old and renamed into place; the server checks its own configuration, which
           includes the map; then it reloads without dropping a connection. Where it finds fault, the old map is back
           before any server has reloaded. The map before lies beside, with `.old` after its name: `rollback` exchanges
           them.
Killed     between renaming and reloading: the file is whole, the server serves the old map, and the next run goes on.
"""

from __future__ import annotations

import fcntl
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from configtron.model.errors import BadInput, Missing, Refused

# A check reads a hundred thousand lines, on a busy host; a reload only signals.
PATIENCE_S = 60.0
SIGNAL_RELOAD = "USR2"


@dataclass(frozen=True, slots=True)
class Server:
    """How one server is asked to check itself and to reload; words as a shell would split them.

    config    the option that names its main configuration file, and where it lies by default ("" if it knows itself)
    pid_file  whose process takes the signal to reload; "" where the server has a command for it
    """

    name: str
    check: tuple[str, ...]
    reload: tuple[str, ...]
    config: tuple[str, str]
    package: str
    pid_file: str = ""

    def configured(self, config: str) -> Server:
        """Return the same with that main configuration file."""
        named = config or self.config[1]
        words = (self.config[0], named) if named else ()
        reload = (*self.reload, *words) if self.reload else ()
        return replace(self, check=(*self.check, *words), reload=reload)


SERVERS: Mapping[str, Server] = {
    server.name: server
    for server in (
        Server("nginx", ("nginx", "-t", "-q"), ("nginx", "-s", "reload"), ("-c", ""), "nginx libnginx-mod-stream"),
        Server("apache", ("apache2ctl", "-t"), ("apache2ctl", "-k", "graceful"), ("-f", ""), "apache2"),
        Server("haproxy", ("haproxy", "-c", "-q"), (), ("-f", "/etc/haproxy/haproxy.cfg"), "haproxy",
               "/run/haproxy.pid"),
    )
}  # fmt: skip


def server(name: str, *, config: str = "", check: str = "", reload: str = "", pid_file: str = "") -> Server:
    """Return a server by name; arguments replace what a distribution has. Errors: `BadInput`."""
    if name not in SERVERS:
        raise BadInput(f"no server is called {name!r}; there is: {', '.join(SERVERS)}")
    found = SERVERS[name].configured(config)
    if check:
        found = replace(found, check=_words(check))
    if reload:
        found = replace(found, reload=_words(reload))
    return replace(found, pid_file=pid_file or found.pid_file)


def _words(command: str) -> tuple[str, ...]:
    """Return the words of a command as a shell would split them. Errors: `BadInput`."""
    try:
        return tuple(shlex.split(command))
    except ValueError as error:
        raise BadInput(f"{command!r} is no command: {error}") from error


def publish(at: Server, file: Path, text: str) -> bool:
    """Give the server a map; return whether it changed. Errors: `Missing`, `Refused`, with the old map in place."""
    with _alone(file):
        before = file.read_text() if file.exists() else None
        if before == text:
            return False
        _take_in(at, file, before, text)
        return True


def rollback(at: Server, file: Path) -> None:
    """Exchange the map with the one before. Errors: `BadInput` where there is none; `Missing`, `Refused`."""
    with _alone(file):
        if not _old(file).exists():
            raise BadInput(f"{_old(file)}: there is no map before this one")
        now, then = file.read_text() if file.exists() else None, _old(file).read_text()
        _take_in(at, file, now, then)


def example_words() -> dict[str, str]:
    """Return what an example of a configuration needs to know of this installation."""
    return {"python": sys.executable}


def _take_in(at: Server, file: Path, before: str | None, text: str) -> None:
    if before is not None:
        _write(_kept(file), before)
    _write(file, text)
    try:
        if at.name == "apache":
            # Apache starts the map's program only when it serves: it would not see a wrong line
            _run(at, (sys.executable, "-P", "-m", "configtron.tune.router.lookup", "--check", str(file)), "finds fault")
        _run(at, at.check, "finds fault with its configuration")
        _run(at, at.reload or ("kill", f"-{SIGNAL_RELOAD}", _process(at)), "does not reload")
    except (Missing, Refused):
        if before is None:
            file.unlink()
        else:
            os.replace(_kept(file), file)
        raise
    _settle(file)


def _settle(file: Path) -> None:
    """The map before becomes the old one: at the end, or in the next run where this one was killed."""
    if _kept(file).exists():
        os.replace(_kept(file), _old(file))


def _run(at: Server, words: Sequence[str], what: str) -> None:
    if not shutil.which(words[0]):
        raise Missing(f"{words[0]} is not here; run: apt-get install {at.package}, or name the command by an option")
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    except subprocess.TimeoutExpired as error:
        raise Refused(f"{shlex.join(words)}: no answer within {PATIENCE_S:g} s; the old map is back") from error
    if done.returncode:
        output = " / ".join((done.stderr or done.stdout).split("\n")).strip(" /")
        raise Refused(f"{at.name} {what}: {output or f'exit code {done.returncode}'}; the old map is back")


def _process(at: Server) -> str:
    try:
        number = Path(at.pid_file).read_text().split()[0]
    except (OSError, IndexError) as error:
        raise Missing(f"{at.pid_file}: no running {at.name} is found there; name its file: --pid-file FILE") from error
    return number


def _old(file: Path) -> Path:
    return file.with_name(file.name + ".old")


def _kept(file: Path) -> Path:
    return file.with_name(file.name + ".kept")


def _map(kept: Path) -> Path:
    return kept.with_name(kept.name.removesuffix(".kept"))


def _write(file: Path, text: str) -> None:
    """Whole or not at all, also where the power fails; with the rights that the file had."""
    new = file.with_name(file.name + ".new")
    with new.open("w") as out:
        out.write(text)
        out.flush()
        os.fsync(out.fileno())
    model = next((path for path in (file, _map(file)) if path.exists()), None)
    if model:
        shutil.copymode(model, new)
    os.replace(new, file)


@contextmanager
def _alone(file: Path) -> Iterator[None]:
    """Write one map at a time. Errors: `BadInput` for a folder that cannot be opened, `Refused` for a second writer."""
    try:
        folder = os.open(file.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise BadInput(f"{file.parent}: {error.strerror}; name a map in a folder of the server's") from error
    try:
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise Refused(f"{file}: another process is writing maps there; try again") from error
        _settle(file)
        yield
    finally:
        os.close(folder)
