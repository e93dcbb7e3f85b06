# SPDX-License-Identifier: MIT
"""A run's report in Markdown: which policy leads on which world, by how much, and how much there is to gain.

Only what the run's files hold is printed. A policy is ahead on a world if its excess over all sessions is less than
every learner's; where the 95 % interval of a difference holds 0 the line says so. A cold start is held against learners
that begin cold, a warm one against all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from benchmarks.sealed.choosers import FAIR, ORACLES, THEIRS, WARM, learns
from benchmarks.sealed.play import difference
from configtron.learner import POLICIES
from configtron.studies.sim.metrics import over as mean_over

Found = Mapping[str, Mapping[str, dict[str, Any]]]
HALF, SLOWER, BENT = 0.5, 0.01, 0.02
HEAD = (
    "policy", "excess, ms", "95 %", "last half, ms", "first 1000 over Default", "95 %", "first 1000 >20 % worse",
    "all over Default", ">20 % worse", "median", "p95", "on broken", "of fair ConfigTron", "CPU s",
)  # fmt: skip


def page(found: Found, title: str, candidates: Sequence[str]) -> str:
    """The whole report."""
    parts = [title, verdicts(found, candidates), gains(found), summary(found)]
    parts += [world_table(name, rows) for name, rows in found.items()]
    return "\n".join(parts)


def verdicts(found: Found, candidates: Sequence[str]) -> str:
    """A line a question and candidate."""
    lines = []
    for one in candidates:
        worlds = {name: rows for name, rows in found.items() if one in rows}
        if not worlds:
            lines.append(f"* `{one}` was played on no world.")
            continue
        lines += [f"* {asked(one, worlds)}" for asked in (ahead, constants, halved, started, bent)]
    return "\n".join(lines) + "\n"


def rivals(one: str, rows: Mapping[str, Any]) -> list[str]:
    """The learners that a candidate is compared with."""
    base = one.removesuffix(WARM)
    named = [row for row in rows if learns(row) and row.removesuffix(WARM) != base]
    return named if one.endswith(WARM) else [row for row in named if not row.endswith(WARM)]


def ahead(one: str, worlds: Found) -> str:
    """On how many worlds it has the least excess of all learners; the others, with numbers."""
    behind, level, won = [], [], 0
    for name, rows in worlds.items():
        others = rivals(one, rows)
        if not others:
            continue
        best = min(others, key=lambda row: rows[row]["excess_ms"])
        away, low, high = difference(rows[one], rows[best])
        ours, theirs = rows[one]["excess_ms"], rows[best]["excess_ms"]
        text = f"{name}: {ours:.0f} ms, {best} {theirs:.0f} [{low:+.0f}, {high:+.0f}]"
        won += away < 0
        if away >= 0:
            behind.append(text)
        elif high >= 0:
            level.append(text)
    line = f"`{one}` is ahead of every learner on {won} of {len(worlds)} worlds"
    line += f"; behind on: {'; '.join(behind)}" if behind else "; behind on none"
    return line + (f". Ahead by less than chance on: {'; '.join(level)}" if level else "")


def constants(one: str, worlds: Found) -> str:
    """Default and the best static configuration, which learn nothing: where it is not ahead of them."""
    found = []
    for row in ("default", "static"):
        here = {name: rows for name, rows in worlds.items() if row in rows and row != one}
        lost = {name: (rows[one]["excess_ms"], rows[row]["excess_ms"]) for name, rows in here.items()
                if rows[one]["excess_ms"] >= rows[row]["excess_ms"]}  # fmt: skip
        text = f"`{one}` is ahead of `{row}` on {len(here) - len(lost)} of {len(here)} worlds"
        behind = "; ".join(f"{name}: {ours:.0f} ms, {theirs:.0f}" for name, (ours, theirs) in lost.items())
        found.append(text + (f" (behind on: {behind})" if lost else ""))
    return ", ".join(found)


def halved(one: str, worlds: Found) -> str:
    """Where its excess is at most half of the fair ConfigTron's."""
    paper = FAIR
    shares = {
        name: rows[one]["excess_ms"] / max(rows[paper]["excess_ms"], 1e-9)
        for name, rows in worlds.items() if paper in rows
    }  # fmt: skip
    more = [f"{name}: {share:.2f}" for name, share in shares.items() if share > HALF]
    line = f"`{one}` has at most half of `{paper}`'s excess on {len(shares) - len(more)} of {len(shares)} worlds"
    return line + (f"; more on: {'; '.join(more)}" if more else "")


def started(one: str, worlds: Found) -> str:
    """Its first thousand sessions against Default's."""
    over = {name: rows[one]["first_over_default"] for name, rows in worlds.items()}
    more = [f"{name}: {100 * share:+.1f} %" for name, share in over.items() if share > SLOWER]
    count = f"{len(over) - len(more)} of {len(over)} worlds"
    line = f"`{one}`: the first 1000 sessions are at most 1 % slower than Default's on {count}"
    if len(over) > 1:
        middle = mean_over(list(over.values()))
        line += f"; mean {100 * middle.value:+.1f} % [{100 * middle.low:+.1f}, {100 * middle.high:+.1f}]"
    return line + (f"; slower on: {'; '.join(more)}" if more else "")


def bent(one: str, worlds: Found) -> str:
    """All its sessions against Default's, on every world and so under every distortion."""
    over = {name: rows[one]["over_default"] for name, rows in worlds.items()}
    more = [f"{name}: {100 * share:+.1f} %" for name, share in over.items() if share > BENT]
    line = f"`{one}`: all sessions at most 2 % slower than Default's on {len(over) - len(more)} of {len(over)} worlds"
    return line + (f"; slower on: {'; '.join(more)}" if more else "")


def gains(found: Found) -> str:
    """How much there is to gain, as shares of Default's mean load time."""
    lines = []
    for name, rows in found.items():
        if "default" not in rows:
            continue
        default, best = rows["default"]["default_ms"], rows["default"]["best_ms"]
        shares = [1.0 - rows[row]["mean_ms"] / default if row in rows else None for row in ORACLES]
        text = ["-" if share is None else f"{100 * share:.1f} %" for share in (*shares, 1.0 - best / default)]
        lines.append((name, f"{default:.0f}", *text))
    head = ("world", "Default, ms", "best static", "best of each class and site", "best of each network and site")
    return "How much there is to gain, of Default's mean:\n\n" + _markdown(head, lines)


def summary(found: Found) -> str:
    """All-session excess, a row a policy and a column a world; and who of ours is nearest to the best on the mean."""
    names = list(found)
    policies = list(dict.fromkeys(row for rows in found.values() for row in rows))
    lines = []
    for row in policies:
        cells = [f"{found[name][row]['excess_ms']:.0f}" if row in found[name] else "-" for name in names]
        lines.append((row, *cells, mean_share(found, row)))
    text = "Excess over the best of each session's network and site, all sessions, ms:\n\n"
    text += _markdown(("policy", *names, "mean share over the best"), lines)
    if best := recommended(found):
        text += f"\nOf the product's policies that need no truth, `{best}` has the least mean share over the best.\n"
    return text


def mean_share(found: Found, row: str) -> str:
    """Mean over worlds of a policy's mean load time over the best's, where it was played on all of them."""
    if any(row not in rows for rows in found.values()):
        return "-"
    shares = [rows[row]["mean_ms"] / rows[row]["best_ms"] - 1.0 for rows in found.values()]
    return f"{sum(shares) / len(shares):.3f}"


def recommended(found: Found) -> str:
    """The product's own policy with the least mean share over the best; "" where none was played everywhere."""
    ours = {row.removesuffix(WARM) for rows in found.values() for row in rows} & POLICIES.keys() - set(ORACLES)
    shares = {row: mean_share(found, row) for row in sorted(ours)}
    known = {row: float(share) for row, share in shares.items() if share != "-"}
    return min(known, key=known.__getitem__) if known else ""


def world_table(name: str, rows: Mapping[str, dict[str, Any]]) -> str:
    """Everything about one world."""
    paper = rows.get(FAIR)
    lines = []
    for row, one in rows.items():
        share = "-" if paper is None else f"{one['excess_ms'] / max(paper['excess_ms'], 1e-9):.2f}"
        lines.append((
            row, f"{one['excess_ms']:.0f}", f"{one['excess_low']:.0f} to {one['excess_high']:.0f}",
            f"{one['last_half_ms']:.0f}",
            f"{100 * one['first_over_default']:+.1f} %",
            f"{100 * one['first_low']:+.1f} to {100 * one['first_high']:+.1f} %", f"{100 * one['first_worse']:.1f} %",
            f"{100 * one['over_default']:+.1f} %", f"{100 * one['worse']:.2f} %", f"{one['median_distance']:.3f}",
            f"{one['p95_distance']:.3f}", str(one["on_broken"]), share, f"{one['cpu_s']:.0f}",
        ))  # fmt: skip
    sessions = next(iter(rows.values()))["sessions"]
    return f"### {name}: {sessions} sessions\n\n{_markdown(HEAD, lines)}"


def absent() -> str:
    """Which of the other libraries are not installed, as a line; "" where all are."""
    lost = []
    for name, module in (("mabwiser", "mabwiser"), ("vw", "vowpalwabbit"), ("contextualbandits", "contextualbandits")):
        try:
            __import__(module)
        except ImportError:
            lost += [row for row in THEIRS if row.startswith(name)]
    return f"not played, for want of `pip install 'configtron[rivals]'`: {', '.join(lost)}" if lost else ""


def _markdown(head: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    rows = [tuple(head), ("---",) * len(head), *lines]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)
