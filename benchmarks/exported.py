"""What `learn export` prints of its rules, against what the rules truly cost: noise-free, on worlds that are known.

    OMP_NUM_THREADS=1 python -m benchmarks.exported [SESSIONS [SEED ...]]

A policy lives through the sessions (spread networks, 20 classes, updates every 50 s), is exported from its whole log,
and its rules serve the later half of the clients once more, without noise, beside the policy's own mix at its end.
Driver: one that reaches congestion control, initial window and pacing by prefix, as kmod and ebpf do. Exit code 1: a
printed 95th percentile lies further below the true one than the claim allows: clients lose what nobody was told.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from configtron.learner.classpolicy import ClassPolicy
from configtron.learner.columns import Codes, Floats
from configtron.learner.handed import handed, served_by
from configtron.learner.judged import Loss, Share, halves, told
from configtron.learner.reached import reached
from configtron.learner.sim.loop import Replay
from configtron.learner.sim.world import World, tensor_of, warm_of, world

SESSIONS, SEEDS, EVERY_S = 20_000, (1, 2, 3), 50.0
NAMES = ("configtron", "mab_nc", "linucb", "thompson")
BY_PREFIX = ("tcp_congestion_control", "initcwnd", "pacing")
FIGURES = ("median", "p95", "mean")
# A twentieth of the clients may lose so much more than printed, as a share of page load time.
CLAIM_HIDDEN = 0.05


def lived(name: str, where: World) -> tuple[ClassPolicy, Replay]:
    """The policy at its end, and what happened."""
    made = where.policy(name)
    assert isinstance(made, ClassPolicy)
    replay = Replay(where.sessions, where.tensor, [made], where.noise(), interval_s=EVERY_S)
    replay.run()
    return made, replay


def losses(made: ClassPolicy, replay: Replay) -> tuple[Mapping[str, Loss | str], dict[str, Floats]]:
    """Of each kind of rules: what is printed, and the true median, 95th percentile and mean."""
    seen, configuration, ms = replay.sessions.seen, replay.decisions_.configuration, replay.plt_ms_
    out = handed(made, seen, configuration, ms, reached(made.grid, lambda knob, _: knob in BY_PREFIX))
    outcomes = told(made, seen, configuration, ms)
    _, later = halves(outcomes)
    # which sessions the later clients are
    number = np.flatnonzero(made.where(seen)[0] >= 0).astype(np.float64)
    condition = replay.sessions.condition[halves(replace(outcomes, ms=number))[1].ms.astype(np.int64)]
    true_ln = np.log(replay.tensor.median_ms[condition][np.arange(len(later)), :, later.contexts.site].astype(float))
    mixed = (made.served_.probabilities(len(made.grid))[later.row] * true_ln).sum(axis=1)
    rules = served_by(made, out.by_site, out.book, out.tune, later)
    return out.losses, {kind: _figures(true_ln, at, mixed) for kind, at in rules.items()}


def _figures(true_ln: Floats, chosen: Codes, mixed: Floats) -> Floats:
    shares = np.expm1(true_ln[np.arange(len(mixed)), chosen] - mixed)
    return np.array([np.median(shares), np.percentile(shares, 95), shares.mean()])


def main(sessions: int = SESSIONS, *seeds: int) -> int:
    """The table and the verdict."""
    hidden, held, of = 0.0, dict.fromkeys(FIGURES, 0), 0
    print(f"{sessions} sessions; printed [interval] / true, shares of page load time; * outside the interval")
    print(f"{'policy':11s}{'seed':>5s} {'rules':6s}" + "".join(f"{figure:>33s}" for figure in FIGURES))
    for seed in seeds or SEEDS:
        tensor = tensor_of("spread", seed)
        where = world(tensor, sessions, seed, warm=warm_of(tensor, "spread", seed))
        for name in NAMES:
            printed, true = losses(*lived(name, where))
            for kind, loss in printed.items():
                head = f"{name:11s}{seed:5d} {kind:6s}"
                if isinstance(loss, str):
                    print(f"{head}  {loss}; true: " + ", ".join(f"{value:+.3f}" for value in true[kind]), flush=True)
                    continue
                shares = loss.median, loss.p95, loss.mean
                print(head + "".join(map(_cell, shares, true[kind])), flush=True)
                of, hidden = of + 1, max(hidden, float(true[kind][1]) - loss.p95.value)
                for figure, share, value in zip(FIGURES, shares, true[kind], strict=True):
                    held[figure] += _holds(share, float(value))
    told_of = ", ".join(f"{figure} {held[figure]} of {of}" for figure in FIGURES)
    verdict = "holds" if hidden <= CLAIM_HIDDEN else "MISSED"
    print(f"intervals that hold the truth: {told_of}")
    print(f"claim: no p95 is more than {CLAIM_HIDDEN} above what is printed: {verdict}, at most {hidden:.3f}")
    return int(hidden > CLAIM_HIDDEN)


def _cell(share: Share, true: float) -> str:
    outside = "" if _holds(share, true) else "*"
    return f"{share.value:+.3f} [{share.low:+.3f}, {share.high:+.3f}] /{true:+.3f}{outside}".rjust(33)


def _holds(share: Share, true: float) -> bool:
    # a rule that is the policy costs nothing, to a rounding
    return share.low - 1e-9 <= true <= share.high + 1e-9


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
