# SPDX-License-Identifier: MIT
"""What users and their programs rely on, against the texts in `golden/`.

A change of one of them breaks their programs: it needs a release and a news fragment. To write the texts anew:

    CONFIGTRON_CONTRACT=write .venv/bin/python -m pytest tests/contract

and commit the difference. Not here: recordings (`make golden`), pages of HTML.
"""

from __future__ import annotations

import ctypes
import dataclasses
import hashlib
import inspect
import json
import os
import re
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import pytest

from configtron.cli.manual import contexts
from configtron.cli.outermost import run
from configtron.db.store import Store
from configtron.fingerprint.features import Sighting
from configtron.model import errors, pcapng
from configtron.model.errors import NOTHING
from configtron.model.nouns import Context
from configtron.model.tensor import write
from configtron.report import csv_columns
from configtron.service.campaign.run_config import run_config
from configtron.service.campaign.run_options import ProbeOptions
from configtron.service.lease import watchdog_process
from configtron.tune.drivers.bpf import objects
from tests.support import ROOT
from tests.support.end_state_records import rows as end_states
from tests.support.end_state_records import written
from tests.support.memory_stack import Stack, stack
from tests.support.sample_results import VANTAGES
from tests.support.sample_results import run as sample_run
from tests.support.tiny_run import results
from tests.support.worlds import small_tensor

# What other programs rely on beside the command line: Python names, database, kernel calls, pinned maps, evidence.

PACKAGES = ("campaign", "capture", "fleet", "learning", "lease", "outcomes", "replay")
HEADER = ROOT / "kmod" / "configtron.h"


def exit_codes(_: Path) -> str:
    """Return the numbers, and the error that ends with each."""
    names = ("DONE", "CONDITION", "USAGE", "PARTIAL", "NOTHING", "PRIVILEGE", "REFUSED", "UNWRITTEN", "INTERRUPTED")
    kinds = [kind for kind in vars(errors).values() if inspect.isclass(kind) and hasattr(kind, "code")]
    lines = [f"{name} {getattr(errors, name)}" for name in names]
    return lines_of(lines + sorted(f"{kind.__name__} {kind.code}" for kind in kinds))


def csv_heads(_: Path) -> str:
    """Return the heads that no command of these prints, and those that it prints again."""
    return lines_of([f"{name}: {','.join(columns)}" for name, columns in vars(csv_columns).items() if name.isupper()])


def python_names(_: Path) -> str:
    """Return the public names of `configtron.service`: parameters of functions, fields of options, methods of classes.

    Annotations are left out: a type may get a better name.
    """
    lines = []
    for package in PACKAGES:
        module = import_module(f"configtron.service.{package}")
        for name in sorted(getattr(module, "__all__", ())):
            lines.append(f"{package}.{name}{described(getattr(module, name))}")
    return lines_of(lines)


def described(found: object) -> str:
    """Return the parameters of a function, or the fields of a class and its methods."""
    if inspect.isclass(found):
        fields = signature(found) if dataclasses.is_dataclass(found) or issubclass(found, tuple) else ""
        public = [f".{name}" for name in sorted(vars(found)) if name[0] != "_" and callable(vars(found)[name])]
        return fields + " ".join(("", *public)) * bool(public)
    return signature(found) if inspect.isfunction(found) else "" if callable(found) else f" = {found!r}"


def signature(found: object) -> str:
    """Return parameters with their defaults, without types."""
    assert callable(found)
    shown = []
    for one in inspect.signature(found).parameters.values():
        value = "..." if inspect.isroutine(one.default) or inspect.isclass(one.default) else repr(one.default)
        default = "" if one.default is one.empty else f"={value}"
        star = {one.VAR_POSITIONAL: "*", one.VAR_KEYWORD: "**"}.get(one.kind, "")
        if one.kind is one.KEYWORD_ONLY and "*" not in "".join(name[:1] for name in shown):
            shown.append("*")
        shown.append(f"{star}{one.name}{default}")
    return f"({', '.join(shown)})"


def database(folder: Path) -> str:
    """Return the schema of a new database without comments and layout, and its version."""
    Store(folder / "new.db").close()
    with closing(sqlite3.connect(folder / "new.db")) as found:
        (version,) = found.execute("PRAGMA user_version").fetchone()
        made = found.execute("SELECT sql FROM sqlite_master WHERE sql != '' ORDER BY type, name").fetchall()
    plain = [" ".join(re.sub("--[^\n]*", "", sql).split()) for (sql,) in made]
    return lines_of([f"user_version {version}", *plain])


def kernel_calls(folder: Path) -> str:
    """Return numbers and layouts of kmod/configtron.h, as the compiler has them."""
    text = re.sub(r"/\*.*?\*/", "", HEADER.read_text(), flags=re.DOTALL)
    asked = [name for name in re.findall(r"^#define (CONFIGTRON_\w+) ", text, re.MULTILINE)]
    for block in re.findall(r"^enum configtron_key \{(.*?)^\}", text, re.MULTILINE | re.DOTALL):
        asked += re.findall(r"CONFIGTRON_\w+", block)
    for name, block in re.findall(r"^struct (configtron_\w+) \{(.*?)^\};", text, re.MULTILINE | re.DOTALL):
        asked.append(f"sizeof(struct {name})")
        for field in re.findall(r"(\w+)(?:\[\w+\])?;", block):
            asked += [f"offsetof(struct {name}, {field})", f"sizeof(((struct {name} *)0)->{field})"]
    print_all = "".join(f'P("{one}", {one});' for one in asked)
    program = f"""#include <stdio.h>
#include <stddef.h>
#include "{HEADER}"
#define P(name, number) printf("%s %llu\\n", name, (unsigned long long)(number))
int main(void) {{ {print_all} return 0; }}
"""
    (folder / "numbers.c").write_text(program)
    subprocess.run(["gcc", "-o", folder / "numbers", folder / "numbers.c"], check=True)
    return subprocess.run([folder / "numbers"], check=True, capture_output=True, text=True).stdout


def pinned_maps(_: Path) -> str:
    """Return the pinned maps of the shipped BPF programs, as libbpf reads them."""
    libbpf = ctypes.CDLL("libbpf.so.1")
    for name, answer in (("bpf_object__open_file", ctypes.c_void_p), ("bpf_object__next_map", ctypes.c_void_p),
                         ("bpf_map__name", ctypes.c_char_p), ("bpf_map__pin_path", ctypes.c_char_p)):  # fmt: skip
        getattr(libbpf, name).restype = answer
    numbers = ("type", "key_size", "value_size", "max_entries", "map_flags")
    lines: set[str] = set()
    for file in sorted((Path(objects.__file__).parent / "shipped" / "el").glob("*.bpf.o")):
        opened = ctypes.c_void_p(libbpf.bpf_object__open_file(str(file).encode(), None))
        assert opened, file
        found = libbpf.bpf_object__next_map(opened, None)
        while found:
            one = ctypes.c_void_p(found)
            what = " ".join(f"{name} {getattr(libbpf, f'bpf_map__{name}')(one)}" for name in numbers)
            if libbpf.bpf_map__pin_path(one):
                lines.add(f"{libbpf.bpf_map__name(one).decode()}: {what}")
            found = libbpf.bpf_object__next_map(opened, one)
        libbpf.bpf_object__close(opened)
    return lines_of(sorted(lines))


def evidence(folder: Path) -> str:
    """Return the evidence files of a tiny run: names, digests, blocks."""
    results(folder)
    lines = []
    for file in sorted(folder.glob("*.pcapng")):
        data = file.read_bytes()
        lines.append(f"{file.name} sha256 {hashlib.sha256(data).hexdigest()}")
    with (folder / "na.pcapng").open("rb") as opened:
        kinds = [block.kind for block in pcapng.blocks(opened)]
    # the comment of the first packet, by which a trace is found
    begun = data.index(b'{"id"')
    comment = data[begun : data.index(b"\0", begun)].decode(errors="replace")
    return lines_of([*lines, f"na.pcapng: {len(kinds)} blocks of kinds {sorted(set(kinds))}", comment])


def lines_of(lines: list[str]) -> str:
    """Return lines as a text."""
    return "".join(f"{line}\n" for line in lines)


CONTRACTS = {
    "exit_codes": exit_codes, "csv_heads": csv_heads, "python_names": python_names, "database": database,
    "kernel_calls": kernel_calls, "pinned_maps": pinned_maps, "evidence": evidence,
}  # fmt: skip


# What commands answer: the exit code, the head of the CSV, names and types of the JSON Lines.

# Words -> exit code, standard output.
Typed = Callable[..., tuple[int, str]]
CAPTURE = ROOT / "fixtures" / "icw" / "10" / "trace.pcapng.gz"
SEEN = Sighting(
    "live", 1_700_000_000_123_456_789, "192.0.2.1", 443, "203.0.113.9", 40_000, "out", "fin", 1.25, 9000, 100, True,
    Context(8000.5, 40.25, None, "", "203.0.113.0/24", 64500, "DE", "phone", 39.5, 0.25, 7000.0, 12.5, None,
            65536.0, 0.25, 3.5, 3.0), (("loss", "drops"), ("loss_run", "drops")),
)  # fmt: skip
SMALL = ("--tensor", "small.npz", "--classes", "4")


def probe(typed: Typed) -> Iterator[str]:
    """Two runs of two sites; lists and plans need none."""
    two_runs()
    for words in ("lists", "lists alexa-top1k", "regions", "plan --top 1000", "show", "show 1", "show 1 --fields icw",
                  "export 1", "diff 1 2"):  # fmt: skip
        yield from forms(typed, f"probe {words}")
    yield one(typed, "probe show 1 -f flat")
    yield one(typed, "probe export 1 -f results")
    yield one(typed, "probe doctor -f csv", codes=(0, 1))
    yield one(typed, "probe doctor -f jsonl", codes=(0, 1))
    for words in ("show 9", "show 1 --target absent.example", "validate", "run", "shwo", "run --nonsense"):
        yield one(typed, f"probe {words}")


def fingerprint(typed: Typed) -> Iterator[str]:
    """A recording; the rows of `live`, `socket` and `contexts` are those of a watch."""
    for words in (f"pcap {CAPTURE}", f"pcap {CAPTURE} --servers"):
        yield from forms(typed, f"fingerprint {words}")
    two_runs()
    yield from forms(typed, "fingerprint diversity 1 --knob icw")
    with Store(Path("x.db")) as store:
        watch = store.begin_watch("live", "{}")
        store.record_contexts(watch, [SEEN])
        store.finish_watch(watch, "done", "{}")
        store.finish_watch(store.begin_watch("socket", "{}"), "done", "{}")
    for words in ("contexts", "contexts 1", "contexts 2"):
        yield from forms(typed, f"fingerprint {words}")


def tune(typed: Typed) -> Iterator[str]:
    """Two profiles and a prefix, put in force in memory and taken back."""
    for words in ("profile set web initcwnd=20", "prefix set 10.1.0.0/16 2001:db8::/32 web",
                  "prefix set default web"):  # fmt: skip
        yield one(typed, f"tune {words}")
    for words in ("profile list", "profile show web", "prefix list", "prefix show 10.1.2.3", "doctor",
                  "plan --driver memory", "apply --driver memory --keep", "status", "verify", "log",
                  "acknowledge", "recover"):  # fmt: skip
        yield from forms(typed, f"tune {words}", codes=(0, 4) if words == "doctor" else ())
    for words in ("rollback -f csv", "apply --driver memory --lease 9 -f csv", "rollback -f jsonl", "rollback"):
        yield one(typed, f"tune {words}")
    for words in ("unacknowledge nothing", "apply absent.plan", "apply --driver none", "profile drop absent"):
        yield one(typed, f"tune {words}")


def learn(typed: Typed) -> Iterator[str]:
    """A log of a small simulation, a policy that learns from it, records of connections' ends."""
    small_world()
    yield one(typed, "learn run")
    yield one(typed, f"replay sessions {' '.join(SMALL)} --sessions 400 --update 10 --policy mab_nc --log -f csv")
    yield one(typed, "learn run --policy mab_nc --classes 4 --name m")
    enroll = ("learn", "manager", "enroll", "ams", "--address", "tcp://192.0.2.1:5555", "--keys", "keys")
    assert typed(*enroll)[0] == 0
    for words in ("policies", "run --policy m", "status",
                  "evaluate --policy m --policy default", "export --policy m", "knobs --policy m",
                  "explain rtt_ms=30 --policy m", "manager agents", "manager maps"):  # fmt: skip
        yield from forms(typed, f"learn {words}")
    written(Path("r.jsonl"), end_states())
    yield one(typed, "learn initial train r.jsonl")
    for words in ("initial predict 10.2.0.9 --at 1.7e9", "initial evaluate"):
        yield from forms(typed, f"learn {words}")
    for words in ("drop --policy m", "drop --policy m", "import absent.csv", "manager revoke absent"):
        yield one(typed, f"learn {words}")


def replay(typed: Typed) -> Iterator[str]:
    """A recording, a small simulation, the list of studies."""
    small_world()
    yield from forms(typed, f"replay packets {CAPTURE} -j 1")
    yield from forms(typed, f"replay sessions {' '.join(SMALL)} --sessions 300 --policy default")
    yield from forms(typed, "replay study --list")
    for words in (f"hotcloud --tensor {ROOT / 'fixtures' / 'tensor' / 'smoke.npz'}", "absent"):
        yield from forms(typed, f"replay study {words}")


def root(typed: Typed) -> Iterator[str]:
    """The command itself, and mistakes before any verb."""
    for words in ("--version", "nonsense", "--config absent.toml doctor"):
        yield one(typed, words)
    yield one(typed, "doctor -f csv", codes=(0, 1))
    yield one(typed, "doctor -f jsonl", codes=(0, 1))


VERBS = {"root": root, "probe": probe, "fingerprint": fingerprint, "tune": tune, "learn": learn, "replay": replay}


def two_runs() -> None:
    """Store two runs; in the second one a site has changed."""
    with Store(Path("x.db")) as store:
        for window in (10, 30):
            number = store.begin_run(run_config(ProbeOptions(seed=7), tuple(VANTAGES.values())))
            for result in sample_run():
                seen = [replace(one, value=window) if one.value == 10 else one for one in result.observations]
                store.record(number, [result._replace(observations=tuple(seen))])
            store.finish_run(number, "done")


def small_world() -> None:
    """Write a small tensor into the current folder."""
    with Path("small.npz").open("wb") as file:
        write(small_tensor(), file)


def forms(typed: Typed, words: str, codes: tuple[int, ...] = ()) -> Iterator[str]:
    """Yield what a command answers as CSV and as JSON Lines."""
    for form in ("csv", "jsonl"):
        yield one(typed, f"{words} -f {form}", codes)


def one(typed: Typed, words: str, codes: tuple[int, ...] = ()) -> str:
    """Return what a command answers; codes: those that it may end with, by what this host has."""
    code, out = typed(*words.split())
    if codes:
        assert code in codes, (words, code)
    shown = f"$ {words.replace(f'{ROOT}/', '')}\n{'|'.join(map(str, codes)) or code}"
    if "jsonl" in words or words.endswith(("flat", "results")):
        return "\n".join((shown, *kinds(out)))
    return f"{shown} {out.splitlines()[0]}" if words.endswith("csv") and out else shown


def kinds(lines: str) -> list[str]:
    """Return names and types of JSON Lines, a line for each schema and kind."""
    found: dict[str, list[object]] = {}
    for line in lines.splitlines():
        row = json.loads(line)
        name = " ".join(str(row[key]) for key in ("schema", "kind", "table") if key in row)
        found.setdefault(name, []).append({key: row[key] for key in row if key not in ("schema", "kind", "table")})
    return [f"  {name}: {shape(rows)}" for name, rows in sorted(found.items())]


def shape(values: list[object]) -> str:
    """Return the type of JSON values: `x?` is a field that some lack, `a|b` one of two types."""
    found = {"null" if one is None else TYPES[type(one)] for one in values} - {"list", "object"}
    if lists := [one for one in values if isinstance(one, list)]:
        found.add(f"[{shape([item for one in lists for item in one])}]")
    if objects := [one for one in values if isinstance(one, dict)]:
        names = sorted({name for one in objects for name in one})
        fields = []
        for name in names:
            there = [one[name] for one in objects if name in one]
            fields.append(f"{name}{'?' * (len(there) < len(objects))}:{shape(there)}")
        found.add("{" + " ".join(fields) + "}")
    return "|".join(sorted(found))


TYPES = {bool: "bool", int: "number", float: "number", str: "text", list: "list", dict: "object"}


__all__ = ["stack"]
GOLDEN = Path(__file__).parent / "golden"
# Columns of a terminal.
WIDTH = 80


def check(name: str, text: str) -> None:
    """Compare with the golden text of this name."""
    file = GOLDEN / f"{name}.txt"
    if os.environ.get("CONFIGTRON_CONTRACT") == "write":
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    assert text == file.read_text()


def test_help() -> None:
    pages: dict[str, list[str]] = {}
    for ctx in contexts():
        ctx.terminal_width = ctx.max_content_width = WIDTH
        verb = (*ctx.command_path.split(), "root")[1]
        pages.setdefault(verb, []).append(f"$ {ctx.command_path} --help\n{ctx.get_help()}\n")
    assert sum(map(len, pages.values())) > 70
    for verb, texts in pages.items():
        check(f"help/{verb}", "\n".join(texts))


@pytest.mark.parametrize("verb", VERBS)
def test_answers(verb: str, stack: Stack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                 capsys: pytest.CaptureFixture[str]) -> None:  # fmt: skip
    for name in ("XDG_DATA_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
    monkeypatch.setattr(watchdog_process, "start", lambda context, act: "")
    monkeypatch.chdir(tmp_path)

    def typed(*words: str) -> tuple[int, str]:
        code = run(["--db", "x.db", *words])
        printed = capsys.readouterr()
        assert "Traceback" not in printed.err, printed.err
        return code, printed.out

    check(f"answers/{verb}", "".join(f"{line}\n" for line in VERBS[verb](typed)))


@pytest.mark.parametrize("name", CONTRACTS)
def test_interfaces(name: str, tmp_path: Path) -> None:
    check(name, CONTRACTS[name](tmp_path))


@pytest.mark.root
@pytest.mark.slow
def test_what_a_run_leaves(tmp_path: Path) -> None:
    """A run against a closed port of a network namespace of its own: files, and shapes of those in JSON."""
    program = [sys.executable, "-m", "configtron", "--db", "x.db", "-q", "probe", "127.0.0.1:9", "--allow", "127.0.0.1"]
    words = ["--tests", "rwin", "--profile", "quick", "--metadata-file", "metadata.json", "-o", "table.txt"]
    script = 'ip link set lo up; exec "$@"'
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "XDG_CONFIG_HOME": str(tmp_path)}
    command = ["unshare", "--net", "sh", "-c", script, "sh", *program, *words]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == NOTHING, done.stderr
    lines = []
    for file in sorted(path for path in tmp_path.rglob("*") if path.is_file() and "x.db-" not in path.name):
        rows = file.read_text().splitlines() if file.suffix in (".json", ".jsonl") else []
        name = file.relative_to(tmp_path)
        lines.append(f"{name}: {shape([json.loads(row) for row in rows])}\n" if rows else f"{name}\n")
    check("run_folder", "".join(lines))
