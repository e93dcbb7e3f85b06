# SPDX-License-Identifier: MIT
"""Claim: SYN-ACK timers, back-off, retries, cookies and duplicates are read right though packets are lost, each way.

    python -m benchmarks.timers [--trials N] [--seed N]

Each row is a kind of server; each trial is a profile's two runs against a half-open socket in virtual time that behaves
as Linux does (`half_open_server.py`), behind a path that loses packets by seed. Beside each other, from the same
packets: our verdict, and the first gap between SYN-ACKs, which is what a timer looks like without knowledge of loss.
What real kernels show is measured by `configtron probe LIST --lab --lab-loss PERCENT` and `configtron probe validate`.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Mapping
from random import Random
from typing import Any

from configtron.fingerprint import read
from configtron.fingerprint.merge import merge_all
from configtron.fingerprint.schedule import WHEEL
from configtron.model.nouns import Observation, Target, Trace
from configtron.probe.play import play
from configtron.probe.synack_rto import synack_rto
from tests.support.half_open_server import HalfOpenServer, Relative

TARGET = Target("site.example", "192.0.2.1")
LOSSES = (0.0, 0.02, 0.05)
RTTS_S = (0.001, 0.02, 0.15, 0.4)
KINDS: Mapping[str, Mapping[str, Any]] = {
    **{f"RTO {rto_s} s": {"rto_s": rto_s} for rto_s in (0.2, 0.3, 1.0, 3.0)},
    "linear back-off": {"linear": True, "retries": 6},
    "two retries": {"retries": 2},
    "ends by RST": {"resets": True},
    "duplicates": {"copies": 2},
    "SYN cookies": {"cookies": True},
    "never repeats": {"retries": 0},
}


def trial(server: HalfOpenServer, number: int) -> tuple[Observation, ...]:
    """One withheld handshake, read."""
    packets, ending = play(synack_rto(TARGET, "benchmark", full=bool(number)), Relative(server))
    return read(Trace(f"here/site/rto.{number}", TARGET, "here", "rto", (), 0, packets, ending=ending))


def truth(settings: Mapping[str, Any]) -> dict[str, float | int | str | None]:
    """What is right of such a server; None where there is nothing to read."""
    silent = bool(settings.get("cookies")) or settings.get("retries") == 0
    return {
        "synack_rto": None if silent else settings.get("rto_s", 1.0),
        "synack_backoff": None if silent else "linear" if settings.get("linear") else "exponential",
        "synack_retries": None if silent else settings.get("retries", 5),
        "synack_end": None if silent else "reset" if settings.get("resets") else "silence",
        "syn_cookies": "yes" if settings.get("cookies") else "no",
        "synack_duplicates": settings.get("copies", 1) - 1,
    }


def judged(verdict: Observation, wanted: float | int | str | None) -> str:
    """right, wrong, or none."""
    value = verdict.value
    if value is None or wanted is None:
        return "right" if value is None and wanted is None else "none" if value is None else "wrong"
    if verdict.grade == "L":
        return "right" if isinstance(value, int) and isinstance(wanted, int) and value <= wanted else "wrong"
    if isinstance(value, float) and isinstance(wanted, float):
        return "right" if abs(value - wanted) <= WHEEL * wanted else "wrong"
    return "right" if value == wanted else "wrong"


def row(settings: Mapping[str, Any], loss: float, trials: int, seed: int) -> tuple[Counter[str], Counter[str]]:
    """(right verdicts by knob, counts of the whole): wrong ones at A or B, and naive timers that were right."""
    right, whole = Counter[str](), Counter[str]()
    for n in range(trials):
        paths = [Random(f"{seed} {sorted(settings.items())} {loss} {n} {k}") for k in range(2)]
        rtt_s = RTTS_S[n % len(RTTS_S)]
        found = [trial(HalfOpenServer(rtt_s=rtt_s, loss=loss, random=paths[k], **settings), k) for k in range(2)]
        verdicts = merge_all(o for observations in found for o in observations)
        for knob, wanted in truth(settings).items():
            verdict = verdicts[knob]
            how = judged(verdict, wanted)
            right[knob] += how == "right"
            whole["wrong at A or B"] += how == "wrong" and verdict.grade in "AB"
        naive = next((o.detail("gaps") for o in found[0] if o.knob == "synack_rto"), None)
        wanted = truth(settings)["synack_rto"]
        if isinstance(wanted, float) and isinstance(naive, tuple) and isinstance(naive[0], float):
            whole["naive"] += abs(naive[0] - wanted) <= WHEEL * wanted
    return right, whole


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=300, help="verdicts for each row [300]")
    parser.add_argument("--seed", type=int, default=1, help="which losses [1]")
    options = parser.parse_args()
    knobs = list(truth({}))
    print("right verdicts of", options.trials, "for each kind of server and loss each way; naive: first gap of one run")
    print(f"{'':18}{'loss':>6}", *(f"{knob.removeprefix('synack_'):>12}" for knob in knobs), f"{'wrong A/B':>10}",
          f"{'naive rto':>10}")  # fmt: skip
    for name, settings in KINDS.items():
        for loss in LOSSES:
            right, whole = row(settings, loss, options.trials, options.seed)
            shares = (f"{right[knob] / options.trials:12.1%}" for knob in knobs)
            naive = f"{whole['naive'] / options.trials:10.1%}" if truth(settings)["synack_rto"] else f"{'-':>10}"
            print(f"{name:18}{loss:6.0%}", *shares, f"{whole['wrong at A or B']:10}", naive, flush=True)


if __name__ == "__main__":
    main()
