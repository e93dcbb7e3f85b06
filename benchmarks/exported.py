# SPDX-License-Identifier: MIT
"""What `learn export` prints of its rules, against what the rules truly cost: noise-free, on worlds that are known.

    OMP_NUM_THREADS=1 python -m benchmarks.exported [idiosyncratic] [SESSIONS [SEED ...]]

A policy lives through the sessions (spread networks, 20 classes, updates every 50 s), is exported from its whole log,
and its rules serve the later half of the clients once more, without noise, beside the policy's own mix at its end.
Driver: one that reaches congestion control, initial window and pacing by prefix, as kmod and ebpf do. Exit code 1: a
printed 95th percentile lies further below the true one than the claim allows: clients lose more than the report says.

Where a class takes the fastest it has loaded, for it has not loaded its best, a line `Default` says what the tune rules
would truly cost with Default there. `idiosyncratic`: a world whose every cell differs by 10 % from its features.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from configtron.learner.class_cells import has_classes
from configtron.learner.columns import Codes, Contexts, Floats
from configtron.learner.driver_support import Mask, reached
from configtron.learner.rule_cost import JudgedOutcomes, Loss, Share, halves, known_outcomes
from configtron.learner.rulebook import rulebook
from configtron.learner.rules_export import RulesExport, export_rules, loaded_configurations, served_by
from configtron.learner.table_policy import TablePolicy
from configtron.studies.sim.loop import Replay
from configtron.studies.sim.world import World, tensor_of, warm_of, world

SESSIONS, SEEDS, EVERY_S = 20_000, (1, 2, 3), 50.0
NAMES = ("configtron", "mab_nc", "linucb", "thompson")
BY_PREFIX = ("tcp_congestion_control", "initcwnd", "pacing")
FIGURES = ("median", "p95", "mean")
# A twentieth of the clients may lose so much more than printed, as a share of page load time.
CLAIM_HIDDEN = 0.05


def lived(name: str, where: World) -> tuple[TablePolicy, Replay]:
    """The policy at its end, and what happened."""
    made = where.policy(name)
    assert has_classes(made)
    replay = Replay(where.sessions, where.tensor, [made], where.noise(), interval_s=EVERY_S)
    replay.run()
    return made, replay


def losses(made: TablePolicy, replay: Replay) -> tuple[Mapping[str, Loss | str], dict[str, Floats]]:
    """Of each kind of rules: what is printed, and the true median, 95th percentile and mean; "Default": the truth of
    tune's with Default where a class has not loaded its best."""
    seen, configuration, ms = replay.sessions.seen, replay.decisions_.configuration, replay.plt_ms_
    among = reached(made.grid, lambda knob, _: knob in BY_PREFIX)
    out = export_rules(made, seen, configuration, ms, among)
    outcomes = known_outcomes(made, seen, configuration, ms)
    earlier, later = halves(outcomes)
    # which sessions the later clients are
    number = np.flatnonzero(made.where(seen)[0] >= 0).astype(np.float64)
    condition = replay.sessions.condition[halves(replace(outcomes, ms=number))[1].ms.astype(np.int64)]
    true_ln = np.log(replay.tensor.median_ms[condition][np.arange(len(later)), :, later.contexts.site].astype(float))
    mixed = (made.served_.probabilities(len(made.grid))[later.row] * true_ln).sum(axis=1)
    rules = served_by(made, out.by_site, out.book, out.tune, later)
    if out.tune.instead:
        rules |= {"Default": _kept(made, out, among, earlier, later, seen)}
    return out.losses, {kind: _figures(true_ln, at, mixed) for kind, at in rules.items()}


def _kept(
    made: TablePolicy, out: RulesExport, among: Mask, earlier: JudgedOutcomes, later: JudgedOutcomes, latest: Contexts
) -> Codes:
    book = rulebook(made, earlier.contexts, latest=latest, among=among, seen=loaded_configurations(made, earlier))
    return served_by(made, out.by_site, out.book, book, later)["tune"]


def _figures(true_ln: Floats, chosen: Codes, mixed: Floats) -> Floats:
    shares = np.expm1(true_ln[np.arange(len(mixed)), chosen] - mixed)
    return np.array([np.median(shares), np.percentile(shares, 95), shares.mean()])


def main(*words: str) -> int:
    """The table and the verdict."""
    variant = "idiosyncratic" if words[:1] == ("idiosyncratic",) else "analytic"
    sessions, *seeds = map(int, words[variant == "idiosyncratic" :] or (SESSIONS,))
    hidden, held, of = 0.0, dict.fromkeys(FIGURES, 0), 0
    print(f"{variant}, {sessions} sessions; printed [interval] / true, shares of page load time; * outside")
    print(f"{'policy':11s}{'seed':>5s} {'rules':6s}" + "".join(f"{figure:>33s}" for figure in FIGURES))
    for seed in seeds or SEEDS:
        tensor = tensor_of("spread", seed, variant)
        where = world(tensor, sessions, seed, warm=warm_of(tensor, "spread", seed))
        for name in NAMES:
            printed, true = losses(*lived(name, where))
            for kind, loss in printed.items():
                head = f"{name:11s}{seed:5d} {kind:6s}"
                if isinstance(loss, str):
                    print(f"{head}  {loss}; true:" + _plain(true[kind]), flush=True)
                    continue
                shares = loss.median, loss.p95, loss.mean
                print(head + "".join(map(_cell, shares, true[kind])), flush=True)
                of, hidden = of + 1, max(hidden, float(true[kind][1]) - loss.p95.value)
                for figure, share, value in zip(FIGURES, shares, true[kind], strict=True):
                    held[figure] += _holds(share, float(value))
            if "Default" in true:
                print(f"{name:11s}{seed:5d} tune, Default in place of what was loaded; true:" + _plain(true["Default"]))
    shown = ", ".join(f"{figure} {held[figure]} of {of}" for figure in FIGURES)
    verdict = "holds" if hidden <= CLAIM_HIDDEN else "MISSED"
    print(f"intervals that hold the truth: {shown}")
    print(f"claim: no p95 is more than {CLAIM_HIDDEN} above what is printed: {verdict}, at most {hidden:.3f}")
    return int(hidden > CLAIM_HIDDEN)


def _plain(figures: Floats) -> str:
    return ",".join(f" {value:+.3f}" for value in figures)


def _cell(share: Share, true: float) -> str:
    outside = "" if _holds(share, true) else "*"
    return f"{share.value:+.3f} [{share.low:+.3f}, {share.high:+.3f}] /{true:+.3f}{outside}".rjust(33)


def _holds(share: Share, true: float) -> bool:
    # a rule that is the policy costs nothing, to a rounding
    return share.low - 1e-9 <= true <= share.high + 1e-9


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
