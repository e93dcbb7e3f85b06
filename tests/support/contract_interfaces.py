# SPDX-License-Identifier: MIT
"""What other programs rely on beside the command line: Python names, database, kernel calls, pinned maps, evidence."""

from __future__ import annotations

import ctypes
import dataclasses
import hashlib
import inspect
import re
import sqlite3
import subprocess
from contextlib import closing
from importlib import import_module
from pathlib import Path

from configtron.db.store import Store
from configtron.model import errors, pcapng
from configtron.report import csv_columns
from configtron.tune.drivers.bpf import objects
from tests.support import ROOT
from tests.support.tiny_run import results

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
    return lines_of([*lines, f"na.pcapng: {len(kinds)} blocks of kinds {sorted(set(kinds))}", first_comment(data)])


def first_comment(data: bytes) -> str:
    """Return the comment of the first packet, by which a trace is found."""
    begun = data.index(b'{"id"')
    return data[begun : data.index(b"\0", begun)].decode(errors="replace")


def lines_of(lines: list[str]) -> str:
    """Return lines as a text."""
    return "".join(f"{line}\n" for line in lines)


CONTRACTS = {
    "exit_codes": exit_codes, "csv_heads": csv_heads, "python_names": python_names, "database": database,
    "kernel_calls": kernel_calls, "pinned_maps": pinned_maps, "evidence": evidence,
}  # fmt: skip
