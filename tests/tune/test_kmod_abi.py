# SPDX-License-Identifier: MIT
"""The kmod driver without the module (with it: test_kmod_guest.py): its words and the module's, packed and back.

The header kmod/configtron.h and its Python twin say the same: the compiler is asked.
"""

from __future__ import annotations

import subprocess
from dataclasses import replace
from ipaddress import ip_network
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from configtron.model.errors import BadInput
from configtron.model.knobs import KNOBS
from configtron.model.nouns import Profile, Value
from configtron.model.tuning import Reach
from configtron.tune import capabilities
from configtron.tune.drivers.kmod import abi
from configtron.tune.drivers.kmod.abi import KEYS
from configtron.tune.drivers.kmod.device import PREFIX, Parameter
from configtron.tune.drivers.kmod.module_units import REACHES, REFUSED, checked, format_prefix, packed, reaches, setting
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


SETTABLE = [knob for knob in KEYS.values() if knob not in REFUSED]
US = ("min_rto", "data_rto", "delack_max", "busy_poll")


def parameter(knob: str) -> Parameter:
    """As the module of a 6.12 kernel would say it, with wide ranges."""
    most = 1 if knob in ("tcp_slow_start_after_idle", "pacing", "quickack", "nagle") else 1_000_000
    return Parameter(0, knob, True, knob == "tcp_congestion_control", 0, most, "us" * (knob in US), "words")


def able() -> dict[str, Reach]:
    found = reaches(map(parameter, SETTABLE))
    control = replace(found["tcp_congestion_control"], values=("bbr", "cubic", "reno"))
    return found | {"tcp_congestion_control": control}


def profile(**settings: Value) -> Profile:
    return Profile("p", tuple(settings.items()))


def test_settings_go_there_and_back() -> None:
    assert SETTABLE == list(REACHES) and set(SETTABLE) | REFUSED.keys() == set(capabilities.SETTABLE)
    assert set(KEYS.values()) <= set(KNOBS)
    whole = profile(
        tcp_congestion_control="cubic", initcwnd=40, tcp_slow_start_after_idle=0, pacing="fq", max_pacing_rate=125_000,
        min_rto=0.02, data_rto=0.3, delack_max=0.04, notsent_lowat=16384, window_clamp=30000, cwnd_clamp=77, priority=5,
        mark=99, busy_poll=50, quickack=1, nagle=0, resume_cwnd=200, resume_rtt=0.123456,
    )  # fmt: skip
    reported = checked(whole, able())
    assert len(reported) == len(SETTABLE)
    assert Profile("p", setting(reported)) == whole


@given(st.integers(1_000, 120_000_000))
def test_seconds_are_whole_microseconds(us: int) -> None:
    within = {"data_rto": Reach("data_rto", least=0, most=120)}
    ((_, reported),) = checked(profile(data_rto=us / 1e6), within).items()
    assert reported == us and setting({6: us}) == (("data_rto", us / 1_000_000),)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"initcwnd": -1}, r"which takes 0\.\.1000000"), ({"initcwnd": 2.5}, "which takes whole numbers"),
        ({"pacing": "on"}, "which takes pfifo_fast, fq"),
        ({"tcp_congestion_control": "configtron"}, "which takes bbr, cubic, reno"),
        ({"tcp_congestion_control": "dctcp"}, "needs ECN.*driver route"), ({"tcp_autocorking": 0}, "driver sysctl"),
        ({"synack_rto": 1.0}, "driver ebpf"), ({"no_such_knob": 1}, "no knob is called so"),
    ],
)  # fmt: skip
def test_out_of_reach_is_stated_with_the_remedy(settings: dict[str, Value], words: str) -> None:
    with pytest.raises(BadInput, match=words):
        checked(profile(**settings), able())


def test_a_knob_that_this_kernel_has_not() -> None:
    with pytest.raises(BadInput, match="quickack=1 is out of reach of the driver kmod$"):
        checked(profile(quickack=1), {})


@pytest.mark.parametrize("name", ["", "x" * 64, "a\0b"])
def test_names_that_the_module_cannot_keep(name: str) -> None:
    with pytest.raises(BadInput, match="1 to 63 bytes"):
        checked(Profile(name, ()), able())


@given(st.lists(st.tuples(st.ip_addresses(), st.integers(0, 128)), max_size=20))
def test_prefixes_go_there_and_back(drawn: list[tuple[object, int]]) -> None:
    nets = [ip_network(f"{a}/{min(n, 32 if '.' in str(a) else 128)}", strict=False) for a, n in drawn]
    prefixes = {str(net): number for number, net in enumerate(nets)}
    reported = packed(prefixes)
    pieces = [reported[at : at + PREFIX.size] for at in range(0, len(reported), PREFIX.size)]
    assert [format_prefix(piece) for piece in pieces] == list(prefixes)
    assert [PREFIX.unpack(piece)[3] for piece in pieces] == list(prefixes.values())


@pytest.mark.parametrize("text", ["10.0.0.0", "10.0.0/8", "10.0.0.0/x", "nonsense/8", "10.0.0.0/999"])
def test_what_is_no_prefix(text: str) -> None:
    with pytest.raises(BadInput, match="is no prefix"):
        packed({text: 1})
