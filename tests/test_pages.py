# SPDX-License-Identifier: MIT
"""Each block of these documents runs in a bare Debian with systemd, or a marker says why not (page_blocks.py)."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from configtron.lab.internet.bpf import compiled
from configtron.lab.uml.kernel import cache_folder, key
from tests.support import ROOT
from tests.support.containers import Container, container, network
from tests.support.page_blocks import Shell, blocks, faults, unmarked
from tests.support.shown import differences

# A bare Debian 12 with systemd, on which the blocks of the documents are run (tests/test_pages.py).

MIRROR = "http://deb.debian.org/debian"
# What a host has, or a page asks for; the servers of the lab at the end.
PACKAGES = (
    "systemd systemd-sysv dbus init-system-helpers iproute2 iputils-ping procps libbpf1 libpcap0.8 nginx-light "
    "libnginx-mod-stream openssl ca-certificates nftables ethtool kmod python3 python3-venv sudo sqlite3 curl make "
    "apache2 nodejs"
).split()


class Unmade(Exception):
    """No bare Debian can be made here; the text is the reason."""


def tree() -> Path:
    """Return the root folder, made if it is not there. Errors: `Unmade`."""
    root = cache_folder() / f"bare-debian-{key(*map(str.encode, PACKAGES))}"
    for program in ("debootstrap", "systemd-nspawn"):
        if not shutil.which(program):
            raise Unmade(f"{program} is missing (debian-packages.txt)")
    if not root.exists():
        part = root.with_suffix(".part")
        shutil.rmtree(part, ignore_errors=True)
        words = ["debootstrap", "--variant=minbase", f"--include={','.join(PACKAGES)}", "bookworm", str(part), MIRROR]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        if done.returncode:
            raise Unmade(f"debootstrap from {MIRROR}: {done.stdout[-500:]}{done.stderr[-500:]}")
        # nginx has port 80; the lab starts its own Apache.
        (part / "etc/systemd/system/multi-user.target.wants/apache2.service").unlink()
        part.rename(root)
    return root


@contextmanager
def bare_debian(name: str) -> Iterator[Container]:
    """Boot it in a network of its own, with what this host has built of the lab. Errors: `Unmade`."""
    root = tree()
    for source in (ROOT / "configtron/lab").rglob("*.bpf.c"):
        compiled(source)
    built = [*cache_folder().glob("kernel-*"), *cache_folder().glob("*.o")]
    bound = [f"{ROOT}:{ROOT}", *(f"{path}:/root/.cache/configtron/{path.name}" for path in built)]
    with network([name]), container(root, name, bound) as host:
        yield host


PAGES = ("tune", "probe", "learn", "fleet")
# This repository, its programs first; plain text, 110 wide.
NAMES = {
    "REPOSITORY": str(ROOT), "PATH": f"{ROOT}/.venv/bin:/usr/sbin:/usr/bin:/sbin:/bin", "COLUMNS": "110",
    "NO_COLOR": "1", "LC_ALL": "C.UTF-8",
}  # fmt: skip


def text_of(page: str) -> str:
    return (ROOT / "docs" / f"{page}.md").read_text()


@pytest.mark.parametrize("page", PAGES)
def test_every_block_is_run_or_says_why_not(page: str) -> None:
    assert [f"docs/{page}.md:{line}" for line in unmarked(text_of(page))] == []


@pytest.fixture
def host(request: pytest.FixtureRequest) -> Iterator[Container]:
    try:
        with bare_debian(f"pages-{request.param}") as booted:
            yield booted
    except Unmade as reason:
        pytest.skip(str(reason))


@pytest.mark.root
@pytest.mark.parametrize(("page", "host"), [(page, page) for page in PAGES], indirect=["host"])
def test_the_blocks_of_a_page_do_what_it_says(page: str, host: Container) -> None:
    def shell(command: str, text: str) -> tuple[int, str]:
        done = host.done(command, text, **NAMES)
        return done.returncode, done.stdout + done.stderr

    wrong = list(faults(text_of(page), shell))
    assert not wrong, "\n\n".join(wrong)


PAGE = """# A page

<!-- before: echo 5 > five -->
<!-- run -->
    test "$(cat five)" = 5
    echo five

    echo six

* a list

  <!-- run: grep 7 -->
      echo 7

  of two paragraphs

<!-- run: tee kept -->
```json
{}
```

<!-- tour: t -->
```console
$ cat kept; echo "it's"
{}
it's
```
"""


@pytest.fixture
def shell_here(tmp_path: Path) -> Shell:

    def shell(command: str, text: str) -> tuple[int, str]:
        words = ["bash", "-c", command]
        done = subprocess.run(words, input=text, cwd=tmp_path, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout + done.stderr

    return shell


def test_blocks_of_a_page_run_in_order(shell_here: Shell) -> None:
    assert [(block.kind, block.about) for block in blocks(PAGE)] == [
        ("before", "echo 5 > five"), ("run", ""), ("run", "grep 7"), ("run", "tee kept"), ("tour", "t"),
    ]  # fmt: skip
    assert unmarked(PAGE) == [] and list(faults(PAGE, shell_here)) == []


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ("= 5", "= 6", 5), ("echo six", "false | cat", 5), ("echo 5 > five", "exit 3", 3), ("grep 7", "grep 8", 13),
        ("tee kept", "tee /", 18), ("it's\n```", "it is\n```", 23),
    ],
)  # fmt: skip
def test_what_does_not_do_what_the_page_says_is_red(shell_here: Shell, old: str, new: str, line: int) -> None:
    assert f"line {line}: " in "".join(list(faults(PAGE.replace(old, new), shell_here))[:1])


# What the comparison of documents with outputs takes for the same, and what it does not.
SHOWN = (
    "policy     span         sessions  median                  s",
    "───────────────────────────────────────────────────────────",
    "squarecb   last half    5000      0.164 [0.1571, 0.1713]  2.10",
    "2 profiles and 595 prefixes by http/1.1",
)


def changed(old: str, new: str) -> list[str]:
    return [line.replace(old, new) for line in SHOWN]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        # a word, counts, figures beyond a tenth, intervals that do not overlap; a number in a word is a word
        ("squarecb", "thompson"), ("5000", "5001"), ("0.164 ", "0.19 "), ("2.10", "4.3"),
        ("[0.1571, 0.1713]", "[0.1714, 0.18]"), ("[0.1571, 0.1713]", "0.16"), ("http/1.1", "http/1.0"), ("policy", ""),
    ],
)  # fmt: skip
def test_a_difference_is_two_lines(old: str, new: str) -> None:
    left, right = differences(SHOWN, changed(old, new), rtol=0.1)
    assert left.startswith("- ") and right.startswith("+ ") and old in left and new in right


def test_figures_within_their_interval_and_narrower_columns_are_alike() -> None:
    for old, new in (("0.164 ", "0.175 "), ("[0.1571, 0.1713]", "[0.17, 0.21]"), ("    ", "  "), ("───", "─")):
        assert differences(SHOWN, changed(old, new), rtol=0.1) == [] != differences(SHOWN, changed(old, new))


def test_counts_differ_only_where_the_block_says_so_and_lines_always() -> None:
    assert differences(SHOWN, changed("595", "640"), rtol=0.1) != []
    assert differences(SHOWN, changed("595", "640"), rtol=0.1, counts=0.1) == []
    assert differences(SHOWN, changed("595", "700"), rtol=0.1, counts=0.1) != []
    assert differences(SHOWN, SHOWN[:-1], rtol=0.1) == [f"- {SHOWN[-1]}"]
    assert differences(SHOWN, [*SHOWN, "killed"], rtol=0.1) == ["+ killed"]
