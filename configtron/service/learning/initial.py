# SPDX-License-Identifier: MIT
"""`learn initial`: initial windows from the ends of earlier connections, over the database.

Classifiers learn what teaches (`EndStates.teaches`), weighed by the chance that it had; the model of paths' windows
learns what chosen windows show of a path besides. Only connections of more than ten packets count.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from configtron.db.end_state_rows import EndStateRows
from configtron.fingerprint.capture.surroundings import Places
from configtron.learner.columns import Floats
from configtron.learner.initial.censored_hierarchy import QUANTILES, WindowModel
from configtron.learner.initial.end_states import (
    MOST_RTT_MS,
    NAMES,
    EndStates,
    checked,
    joined,
    of_capture,
    of_rows,
    placed,
    prefix_of,
)
from configtron.learner.initial.half_quantile import windows_of_clients
from configtron.learner.initial.hit_ratios import HitRatio, hit_ratios, parted
from configtron.learner.initial.initial_strategies import STRATEGIES, effective, windows_of
from configtron.learner.initial.naive_bayes import NaiveBayes, inputs_of, network_around
from configtron.learner.initial.quantisation import MAX_CWND, TARGETS, UNKNOWN, target_bins
from configtron.learner.initial.rounded_mean import NEAREST, bin_of
from configtron.learner.initial.teaching import weights_of
from configtron.learner.state import decode, encode
from configtron.model.bounds import check_number, check_texts
from configtron.model.errors import BadInput, file_errors
from configtron.model.records import Json
from configtron.service.capture.reading import connection_forms
from configtron.service.progress import Progress, unheard

# A line of `fingerprint pcap -f jsonl`.
CONNECTION = "configtron.connection/1"
# Fields of an end state's line that are no column.
MARKS = ("schema", "kind")
# s since 1970: the year 2200.
LATEST_S = 7_258_118_400.0
# Smallest probability that a row of `predict` is printed for.
LEAST_SHARE = 0.005
# The rule of use among strategies; the name of the model that it stands on.
HALF, PATH_WINDOW = "half-quantile", "path_window"
SHOWN = 60


@dataclass(frozen=True, slots=True)
class InitialOptions:
    """files: captures, or JSON Lines of end states or of connections; places: MaxMind-format files with locations."""

    db: Path
    files: tuple[Path, ...] = ()
    places: tuple[Path, ...] = ()

    def __post_init__(self) -> None:
        """Check texts. Errors: `BadInput`."""
        check_texts(self)


@dataclass(frozen=True, slots=True)
class WindowsOptions:
    """prefix: a client's, or its address; at_s: a time, s since 1970, None for now; rtt_ms: of its handshake."""

    db: Path
    prefix: str
    at_s: float | None = None
    rtt_ms: float | None = None

    def __post_init__(self) -> None:
        """Check texts and ranges. Errors: `BadInput`."""
        check_texts(self)
        check_number("at_s", self.at_s, 0, LATEST_S, absent=True)
        check_number("rtt_ms", self.rtt_ms, 0.001, MOST_RTT_MS, absent=True)


@dataclass(frozen=True, slots=True)
class HitOptions:
    """share: of the connections that models learn from, the earlier ones; seed: of the network."""

    db: Path
    share: float = 0.5
    seed: int = 1

    def __post_init__(self) -> None:
        """Check texts and ranges. Errors: `BadInput`."""
        check_texts(self)
        check_number("share", self.share, 0.01, 0.99)
        check_number("seed", self.seed, 0, 2**32 - 1, whole=True)


class InitialTraining(NamedTuple):
    """read: connections of the files; added: of them new; left_out: by reason; known: in the database; learned: from
    how many of these."""

    read: int
    added: int
    left_out: Counter[str]
    known: int
    learned: int

    def lines(self) -> Iterator[str]:
        """Yield what was read and learned, for people."""
        if self.read:
            yield f"{self.read} connections read, {self.added} of them new"
        yield from (f"{count} left out: {reason}" for reason, count in self.left_out.most_common())
        yield f"learned from {self.learned} of {self.known} connections: of the untouched stack, with over 10 packets"


class InitialWindows(NamedTuple):
    """What is predicted for a client. by: prefix, network or all, whichever was seen; rows: of the command."""

    prefix: str
    by: str
    windows: dict[str, int]
    rows: list[dict[str, Json]]


def train_initial(options: InitialOptions, progress: Progress = unheard, clock: Callable[[], float] = time.time
                  ) -> InitialTraining:  # fmt: skip
    """Read connections of files into the database, and learn all that are there anew. Errors: `BadInput`."""
    del progress
    with file_errors():
        parts = [_of_file(path) for path in options.files]
        states = joined(parts)
        if options.places:
            places = Places(options.places, located=True)
            states = placed(states, lambda prefix: places.location(prefix.partition("/")[0]))
        good, left_out = checked(states, clock())
        with EndStateRows(options.db) as store:
            added = store.add(good)
            every = store.every()
            some = every[every.teaches]
            store.save_models(_classifiers(some) | _path_windows(every), len(some))
    return InitialTraining(len(states), added, left_out, len(every), len(some))


def _path_windows(every: EndStates) -> dict[str, str]:
    """Return the model of paths' windows by its name; nothing where windows are lower bounds alone."""
    try:
        return {PATH_WINDOW: encode(WindowModel(every[every.is_long]).state())}
    except BadInput:
        return {}


def _classifiers(some: EndStates) -> dict[str, str]:
    """Return the state of a classifier by target."""
    inputs, weights, found = inputs_of(some), weights_of(some), {}
    for target, bins in TARGETS.items():
        model = NaiveBayes(len(bins.values))
        model.observe(inputs, target_bins(some, target), weights)
        found[target] = encode(model.state())
    return found


def _of_file(path: Path) -> EndStates:
    try:
        with path.open("rb") as file:
            is_json = file.read(1) == b"{"
    except (OSError, ValueError) as error:
        raise BadInput(f"{str(path)[:SHOWN]}: {getattr(error, 'strerror', None) or error}") from error
    if not is_json:
        return of_capture(connection_forms(str(path)))
    with path.open("rb") as file:
        return joined([_of_line(line, f"{path} line {number}") for number, line in enumerate(file, 1) if line.strip()])


def _of_line(line: bytes, where: str) -> EndStates:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise BadInput(f"{where}: no JSON: {str(error)[:SHOWN]}") from error
    if not isinstance(row, dict):
        raise BadInput(f"{where}: no JSON object")
    try:
        if row.get("schema") == CONNECTION:
            return of_capture([row])
        return of_rows([_known(row)])
    except (BadInput, TypeError, ValueError, AttributeError) as error:
        raise BadInput(f"{where}: {str(error)[:200]}") from error


def _known(row: dict[str, Any]) -> dict[str, Any]:
    if strange := [name for name in row if name not in (*NAMES, *MARKS)]:
        raise BadInput(f"an end state has no {strange[0][:SHOWN]!r}; it has {', '.join(NAMES)}")
    known = {name: value for name, value in row.items() if name in NAMES}
    # a column of texts is as wide as its longest
    if long := [name for name, value in known.items() if isinstance(value, str) and len(value) > SHOWN]:
        raise BadInput(f"{long[0]} of an end state has more than {SHOWN} characters")
    if bad := [name for name, value in known.items() if isinstance(value, str) and not value.isprintable()]:
        raise BadInput(f"{bad[0]} of an end state has characters that cannot be printed")
    return known


def predict_initial(options: WindowsOptions, clock: Callable[[], float] = time.time) -> InitialWindows:
    """Return what a client of this prefix gets at this time. Errors: `BadInput` where nothing was learned."""
    prefix = prefix_of(options.prefix)
    if not prefix:
        raise BadInput(f"{options.prefix[:SHOWN]!r} is neither a prefix nor an address")
    with EndStateRows(options.db, read_only=True) as store:
        saved = {name: decode(state) for name, state in store.models().items()}
    models = {name: NaiveBayes.of_state(state) for name, state in saved.items() if name in TARGETS}
    if not models or not models[MAX_CWND.name].learned:
        raise BadInput("no initial window was learned yet: configtron learn initial train FILE")
    at_s = clock() if options.at_s is None else options.at_s
    client = of_rows([{"prefix": prefix, "at_s": at_s, "min_rtt_ms": options.rtt_ms}])
    inputs = inputs_of(client)
    shares = {name: model.predict(inputs)[0] for name, model in models.items()}
    windows = windows_of(shares[MAX_CWND.name].reshape(1, -1))
    by = _seen(models[MAX_CWND.name], prefix)
    found = dict(zip(STRATEGIES, effective(windows)[0].tolist(), strict=True))
    rows: list[dict[str, Json]] = [
        {"kind": "strategy", "name": name, "value": window, "by": by, "unit": "segments"}
        for name, window in found.items()
    ]
    if PATH_WINDOW in saved:
        rows += _window_rows(WindowModel.of_state(saved[PATH_WINDOW]), client)
    for name, probabilities in shares.items():
        rows += _variable_rows(name, probabilities, by)
    return InitialWindows(prefix, by, found, rows)


def _window_rows(model: WindowModel, client: EndStates) -> list[dict[str, Json]]:
    """Return the rule's window, and the quantiles of the path's window."""
    by = model.answers_for(client.prefix[0].item())
    first = int(effective(windows_of_clients(model, client))[0])
    rows: list[dict[str, Json]] = [{"kind": "rule", "name": HALF, "value": first, "by": by, "unit": "segments"}]
    for share, value in zip(QUANTILES, model.quantiles(client)[0].tolist(), strict=True):
        rows.append({"kind": "quantile", "name": PATH_WINDOW, "value": round(value, 1), "share": share, "by": by,
                     "unit": "segments"})  # fmt: skip
    return rows


def _seen(model: NaiveBayes, prefix: str) -> str:
    known = model.known_values()
    if prefix in known["prefix"]:
        return "prefix"
    return "network" if network_around(prefix) in known["network"] else "all"


def _variable_rows(name: str, shares: Floats, by: str) -> list[dict[str, Json]]:
    """Return the mean's value of a variable, then each bin with its probability."""
    bins, unit = TARGETS[name], {"min_rtt_ms": "ms", "max_cwnd": "segments"}.get(name, "packets")
    mean = float(bins.of_bins(bin_of(shares.reshape(1, -1), NEAREST))[0])
    rows: list[dict[str, Json]] = [{"kind": "mean", "name": name, "value": round(mean, 1), "by": by, "unit": unit}]
    for at, share in enumerate(shares.tolist()):
        if share >= LEAST_SHARE:
            value = round(bins.values[at], 1)
            rows.append({"kind": "bin", "name": name, "value": value, "share": round(share, 4), "by": by, "unit": unit})
    return rows


def evaluate_initial(options: HitOptions) -> list[HitRatio]:
    """Return exact hits of connections by what earlier ones teach, for each variable that is known. `BadInput`."""
    with EndStateRows(options.db, read_only=True) as store:
        states = store.every()
    states = states[states.teaches]
    earlier, later = parted(states, options.share)
    known = [target for target in TARGETS
             if all((target_bins(part, target) != UNKNOWN).any() for part in (earlier, later))]  # fmt: skip
    return [row for target in known for row in hit_ratios(earlier, later, target, options.seed)]


def hit_rows(found: Sequence[HitRatio]) -> list[dict[str, Json]]:
    """Return rows for printing; unknown is None."""
    return [
        {name: None if isinstance(value, float) and value != value else
         round(value, 4) if isinstance(value, float) else value for name, value in one._asdict().items()}
        for one in found
    ]  # fmt: skip
