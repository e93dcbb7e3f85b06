# SPDX-License-Identifier: MIT
"""Real programs that fetch pages from real servers, recorded at both ends of a path with troubles. Needs root.

Programs that are not installed are left out; `Recorded.programs` says which ones spoke.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.support.impaired_path import Rig, rig

SIZE, SMALL = 150_000, 5
HOSTS = ("10.99.0.2", "[fd99::2]")
PYTHON = "import sys, urllib.request; urllib.request.urlopen(sys.argv[1], timeout=30).read()"
# pip carries requests along, so that every environment has it.
REQUESTS = "import sys; from pip._vendor import requests; requests.get(sys.argv[1], timeout=30).content"
NODE = "require('http').get(process.argv[1], r => r.resume())"
APT = "/usr/lib/apt/apt-helper"
GO = """package main

import ("io"; "net/http"; "os")

func main() {
	answer, err := http.Get(os.Args[1])
	if err != nil { os.Exit(1) }
	io.Copy(io.Discard, answer.Body)
}
"""
# Programs, and how each asks for a page; PLACE is a folder of its own.
CLIENTS = {
    "curl": ("curl", "-g", "-s", "-o", "/dev/null", "-m", "30", "URL"),
    "wget": ("wget", "-q", "-O", "/dev/null", "-T", "30", "URL"), "urllib": (sys.executable, "-c", PYTHON, "URL"),
    "requests": (sys.executable, "-c", REQUESTS, "URL"), "node": ("node", "-e", NODE, "URL"),
    "apt": (APT, "download-file", "URL", "PLACE/apt"), "go": ("PLACE/fetch", "URL"),
}  # fmt: skip
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chromium-headless-shell", "headless_shell")
# A page that makes a browser open several connections.
PAGE = "<html><body>" + "".join(f'<img src="small{n}">' for n in range(6)) + '<img src="big"></body></html>'


class Trouble(NamedTuple):
    """What the path does to packets (shares), and whether captures hold super-frames."""

    loss: float = 0.0
    swap: float = 0.0
    double: float = 0.0
    merged: bool = False


# Each kind of trouble alone, all together, none; with and without super-frames.
TROUBLES = {
    "plain": Trouble(), "loss": Trouble(loss=0.02), "swap": Trouble(swap=0.03), "double": Trouble(double=0.03),
    "all": Trouble(0.02, 0.02, 0.02), "merged": Trouble(merged=True),
    "merged, loss": Trouble(loss=0.02, swap=0.02, double=0.02, merged=True),
}  # fmt: skip


class Recorded(NamedTuple):
    """Files of both ends, the clients' TLS secrets, who spoke, and what the server's kernel counted of its repeats."""

    ends: Mapping[str, Path]
    keys: Path
    programs: tuple[str, ...]
    kernel: Mapping[str, int]


@contextmanager
def recorded(folder: Path, trouble: Trouble, *, seed: int = 7, rounds: int = 1) -> Iterator[Recorded]:
    """Have every program fetch pages over IPv4 and IPv6, in clear, by TLS and by HTTP/2."""
    pages = folder / "pages"
    pages.mkdir(parents=True)
    (pages / "big").write_bytes(os.urandom(SIZE))
    (pages / "small").write_text("small")
    (pages / "index.html").write_text(PAGE)
    for number in range(6):
        (pages / f"small{number}").write_text("small")
    files = {end: folder / f"{end}.pcap" for end in ("client", "server")}
    with rig(**trouble._asdict(), seed=seed) as stands, ExitStack() as stack:
        serve = (sys.executable, "-m", "http.server", "--bind", "::", "80", "-d", str(pages))
        stack.enter_context(stands.running("server", *serve))
        secure = _secure(stands, folder, pages, stack)
        wait(stands, 80)
        with stands.recording("client", files["client"]), stands.recording("server", files["server"]):
            programs: list[str] = []
            for _ in range(rounds):
                programs = _fetch(stands, folder, secure)
        counted = _counters(stands)
        yield Recorded(files, folder / "keys", tuple(programs), counted)


def _fetch(stands: Rig, folder: Path, secure: bool) -> list[str]:
    spoke = []
    for name, words in CLIENTS.items():
        filled = [word.replace("PLACE", str(folder)) for word in words]
        if name == "go" and not _built(folder):
            continue
        if shutil.which(filled[0]):
            spoke.append(name)
            for host in HOSTS:
                for page in ("big", "small"):
                    stands.run("client", *(f"http://{host}/{page}" if word == "URL" else word for word in filled))
    more = {**os.environ, "SSLKEYLOGFILE": str(folder / "keys"), "HOME": str(folder)}
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is not None:
        spoke.append("browser")
        words = (browser, "--headless", "--no-sandbox", "--disable-gpu", "--ignore-certificate-errors", "--dump-dom")
        for host in HOSTS:
            stands.run("client", *words, f"http://{host}/index.html", env=more)
            if secure:
                stands.run("client", *words, f"https://{host}/index.html", env=more)
    if secure:
        for host in HOSTS:
            quiet = ("curl", "-g", "-k", "-s", "-m", "30", "-o", "/dev/null")
            for version in ("--http2", "--http1.1", "--tls-max=1.2"):
                stands.run("client", *quiet, *version.split("="), f"https://{host}/big", env=more)
            stands.run("client", *quiet, "--http2-prior-knowledge", f"http://{host}:81/big")
    return spoke


def _built(folder: Path) -> bool:
    """A Go program that fetches a page, if there is a compiler."""
    if shutil.which("go") is None:
        return False
    if not (folder / "fetch").exists():
        (folder / "fetch.go").write_text(GO)
        words = ["go", "build", "-o", str(folder / "fetch"), str(folder / "fetch.go")]
        subprocess.run(words, check=True, capture_output=True, env={**os.environ, "CGO_ENABLED": "0"})
    return True


def _secure(stands: Rig, folder: Path, pages: Path, stack: ExitStack) -> bool:
    """nghttpd with TLS and in clear, if it is installed."""
    if shutil.which("nghttpd") is None:
        return False
    key, cert = folder / "key.pem", folder / "cert.pem"
    made = ("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=x", "-keyout", key, "-out", cert)
    subprocess.run(list(map(str, made)), check=True, capture_output=True)
    stack.enter_context(stands.running("server", "nghttpd", "-d", str(pages), "443", str(key), str(cert)))
    stack.enter_context(stands.running("server", "nghttpd", "--no-tls", "-d", str(pages), "81"))
    wait(stands, 443)
    wait(stands, 81)
    return True


def wait(stands: Rig, port: int) -> None:
    """Wait until a program listens there, as the server's own namespace reports."""
    for _ in range(200):
        if f":{port} " in stands.run("server", "ss", "-ltnH").stdout.decode():
            return
        time.sleep(0.05)
    raise AssertionError(f"no program listens on {port}")


def _counters(stands: Rig) -> dict[str, int]:
    """What the server's kernel counted (RFC 4898-like, `nstat`)."""
    found: dict[str, int] = {}
    for name in ("snmp", "netstat"):
        lines = stands.run("server", "cat", f"/proc/net/{name}").stdout.decode().splitlines()
        for names, values in zip(lines[::2], lines[1::2], strict=True):
            if names.startswith(("Tcp:", "TcpExt:")):
                found |= dict(zip(names.split()[1:], map(int, values.split()[1:]), strict=True))
    return found
