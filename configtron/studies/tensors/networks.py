# SPDX-License-Identifier: MIT
"""Claims about one kind of network: HTTP versions on a lossy one, initial windows on a long one.

Each compares cells that differ in one knob, all others at what stands for their default (`rivals.near_default`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from configtron.model.nouns import Value
from configtron.studies.output.results import ABSENT, HOLDS, PARTLY, UNKNOWN, Fact
from configtron.studies.tensors.comparison import CC, at_settings, near_default
from configtron.studies.tensors.improvement import MeasuredCells

H1, H2 = "http/1.1", "h2"
ICW, VERSION = "initcwnd", "http_version"
# HC's network of the claim: kbit/s, and as much of a hundred that is lost; half a per mille is rounding.
LOSSY, ROUNDING = (5000.0, 0.01), 0.0005
# A round trip from which the window matters; HC's grid has two such.
LONG_MS = 250.0


def first_of_sites(cells: MeasuredCells, words: Sequence[str]) -> str:
    """Each site's words, named."""
    return "; ".join(f"{site}: {texts}" for site, texts in zip(cells.tensor.sites, words, strict=True))


def versions(cells: MeasuredCells) -> Fact:
    """Holds: HTTP/1.1 is faster in every cell of that network. Partly: in most. Sure ones are counted apart."""
    claim = "HTTP/1.1 beats HTTP/2 with cubic at 1 % loss and 5 Mbit/s"
    pair = [_only(cells, **{CC: "cubic", VERSION: version}) for version in (H1, H2)]
    tensor = cells.tensor
    some = np.flatnonzero((tensor.bandwidth_kbps == LOSSY[0]) & (np.abs(tensor.loss - LOSSY[1]) < ROUNDING))
    if None in pair or not len(some):
        return Fact(claim, "it does", "-", UNKNOWN, "no such network, or not both versions, in what is measured")
    one, two = (int(at) for at in pair if at is not None)
    faster = sure = turned = 0
    texts = []
    for c in some:
        # where neither loads neither is faster
        with np.errstate(invalid="ignore"):
            ratio = cells.ms[c, two] / cells.ms[c, one]
        faster += int((ratio > 1).sum())
        sure += int((cells.high_ms[c, one] < cells.low_ms[c, two]).sum())
        turned += int((cells.high_ms[c, two] < cells.low_ms[c, one]).sum())
        texts.append(f"{tensor.rtt_ms[c]:g} ms " + "/".join(f"{r:.2f}" if np.isfinite(r) else "-" for r in ratio))
    count = len(some) * len(tensor.sites)
    verdict = HOLDS if faster == count else PARTLY if faster > count / 2 else ABSENT
    words = (
        f"beyond doubt in {sure}, HTTP/2 beyond doubt in {turned}; page load time of HTTP/2 over HTTP/1.1 by round "
        f"trip ({'/'.join(tensor.sites)}): {', '.join(texts)}"
    )
    return Fact(claim, "it does", f"in {faster} of {count} networks and sites", verdict, words)


def initial_windows(cells: MeasuredCells) -> Fact:
    """Holds: largest before the default's before the smallest, at every site, on the longest loss-free networks."""
    claim = "at a long round trip a larger initial window loads faster"
    windows = sorted(int(str(v)) for knob in cells.grid.knobs if knob.name == ICW for v in knob.values)
    rows = {w: _only(cells, **{ICW: w}) for w in windows}
    known = {w: at for w, at in rows.items() if at is not None}
    tensor = cells.tensor
    some = np.flatnonzero((tensor.loss == 0) & (tensor.rtt_ms >= LONG_MS))
    if len(known) < 2 or not len(some):
        return Fact(claim, "30 < 10 < 1", "-", UNKNOWN, "no long loss-free network, or one window only, is measured")
    middle = int(str(near_default(cells)[ICW]))
    chosen = list(dict.fromkeys((max(known), middle, min(known))))
    ms = np.stack([cells.ms[some][:, known[w]] for w in chosen])
    ordered = (ms[:-1] < ms[1:]).all(axis=0)
    verdict = HOLDS if ordered.all() else PARTLY if ordered.mean() > 0.5 else ABSENT
    texts = [
        f"{tensor.names[c]} {site} " + ", ".join(f"{w}: {ms[k, n, s] / 1e3:.2f} s" for k, w in enumerate(chosen))
        for n, c in enumerate(some)
        for s, site in enumerate(tensor.sites)
    ]
    ours = f"{' < '.join(map(str, chosen))} in {int(ordered.sum())} of {ordered.size} networks and sites"
    return Fact(claim, "30 < 10 < 1", ours, verdict, "; ".join(texts))


def _only(cells: MeasuredCells, **wanted: Value) -> int | None:
    """The configuration with these settings and what stands for the default in all other knobs."""
    found = at_settings(cells, **{**near_default(cells), **wanted})
    return found[0] if found else None
