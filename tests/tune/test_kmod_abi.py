# SPDX-License-Identifier: MIT
"""The header kmod/configtron.h and its Python twin say the same: the compiler is asked."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from configtron.tune.drivers.kmod import abi
from tests.support import ROOT

HEADER = ROOT / "kmod" / "configtron.h"


def asked(tmp_path: Path, expressions: list[str], flags: tuple[str, ...] = ()) -> list[int]:
    """What the compiler makes of these expressions with the header before them; they are constants."""
    table = ",".join(f"(unsigned long long)({expression})" for expression in expressions)
    program = tmp_path / "ask.c"
    program.write_text(
        f'#include <stdio.h>\n#include <stddef.h>\n#include "{HEADER}"\n'
        f"static const unsigned long long asked[] = {{{table}}};\n"
        "int main(void)\n{\n\tfor (unsigned int i = 0; i < sizeof(asked) / sizeof(*asked); i++)\n"
        '\t\tprintf("%llu\\n", asked[i]);\n\treturn 0;\n}\n'
    )
    command = ["gcc", "-Wall", "-Werror", "-Wpadded", *flags, "-o", str(tmp_path / "ask"), str(program)]
    subprocess.run(command, check=True)
    done = subprocess.run([tmp_path / "ask"], capture_output=True, text=True, check=True)
    return [int(line) for line in done.stdout.split()]


def test_sizes_and_offsets(tmp_path: Path) -> None:
    """-Wpadded besides: the compiler finds no hidden padding."""
    questions, answers = [], []
    for name, fields in abi.LAYOUTS.items():
        questions.append(f"sizeof(struct configtron_{name})")
        answers.append(abi.STRUCTS[name].size)
        offset = 0
        for field, code in fields:
            size, whole = abi.struct.calcsize("=" + code), f"struct configtron_{name}"
            questions += [f"offsetof({whole}, {field})", f"sizeof((({whole} *)0)->{field})"]
            answers += [offset, size]
            offset += size
    assert dict(zip(questions, asked(tmp_path, questions), strict=True)) == dict(zip(questions, answers, strict=True))


def test_calls_keys_and_flags(tmp_path: Path) -> None:
    wanted = {name: abi.number(name) for name in abi.CALLS} | {key: at for at, key in enumerate(abi.KEYS)} | abi.FLAGS
    wanted |= {"KEYS": len(abi.KEYS), "ABI": abi.ABI, "CC_BYTES": abi.CC_BYTES, "NAME_BYTES": abi.NAME_BYTES}
    found = asked(tmp_path, [f"CONFIGTRON_{name}" for name in wanted])
    assert dict(zip(wanted, found, strict=True)) == wanted
    lines = [line for line in HEADER.read_text().splitlines() if "CONFIGTRON_IOC, " in line]
    assert {line.split()[1].removeprefix("CONFIGTRON_") for line in lines} == set(abi.CALLS)


@pytest.mark.parametrize("layout", abi.LAYOUTS)
def test_what_is_packed_is_unpacked(layout: str) -> None:
    values: dict[str, int | bytes] = {}
    for place, (field, code) in enumerate(abi.LAYOUTS[layout], start=1):
        size = int(code[:-1]) if code.endswith("s") else 0
        text = b"t" * (size - 1) if field in abi.TEXTS else b"t" * size
        values[field] = text if size else place
    assert abi.unpack(layout, abi.pack(layout, **values)) == values
