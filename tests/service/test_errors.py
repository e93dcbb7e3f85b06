# SPDX-License-Identifier: MIT
"""Functions of `configtron.service`, each with values that are none: errors are `ConfigtronError` of one line."""

from __future__ import annotations

import io
import itertools
import signal
import types
import typing
from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from importlib import import_module
from inspect import isfunction
from math import inf, nan
from pathlib import Path
from typing import Any

import pytest

from configtron.db.store import Store
from configtron.model.errors import ConfigtronError, Missing
from configtron.model.nouns import Profile
from configtron.model.tuning import Place, Rules
from configtron.service import campaign, capture, learning, lease, replay
from tests.support import sample_results
from tests.support.waiting import PATIENCE_S

RECORDING = Path(__file__).parents[2] / "fixtures/icw/10/trace.pcapng.gz"
PACKAGES = ("campaign", "capture", "learning", "lease", "replay")
WORDS = ("", "nope", "-1", "\0", "../x", "9" * 5000, "a=b=c", "\ud800", "192.0.2.1/33", "a\nb")
NUMBERS = {int: (-1, -(10**30), 10**30, 0), float: (nan, inf, -inf, -1.0, 0.0, 1e300)}
CSV = "plt_ms,bandwidth_kbps,rtt_ms,loss,prefix,initcwnd,propensity\n" + "".join(
    f"{100 + at % 7},9000,{40 + at % 9},0,192.0.2.0/24,{10 if at % 2 else 30},0.5\n" for at in range(300)
)
Call = Callable[[], object]


class Files:
    """Files and folders that are not what is wanted; and databases that are."""

    def __init__(self, folder: Path) -> None:
        self.folder, self._numbers = folder, itertools.count()
        for name, data in (("noise", bytes(range(256)) * 40), ("empty", b""), ("text", b"hello\n"), ("json", b"{}\n")):
            (folder / name).write_bytes(data)
        (folder / "folder").mkdir()
        (folder / "outcomes.csv").write_text(CSV)
        names = ("noise", "empty", "text", "json", "folder", "absent", "text/below", "x\0y", "n" * 300)
        self.bad = tuple(folder / name for name in names)
        self.learned, self.tuned, self.runs = (folder / f"{name}.db" for name in ("learned", "tuned", "runs"))
        with (folder / "outcomes.csv").open("rb") as file:
            learning.import_file(file, "outcomes.csv", learning.ImportOptions(self.learned))
        learning.run(learning.LearnOptions(self.learned, "mab_nc", policy_options=learning.PolicyOptions(classes="2")))
        lease.set_profile(self.tuned, "web", ["initcwnd=20"])
        lease.set_prefixes(self.tuned, {"192.0.2.0/24": "web"})
        Store(self.runs).close()

    def new(self) -> Path:
        """A database that is not there."""
        return self.folder / f"new{next(self._numbers)}.db"


def bad_of(kind: Any, files: Files) -> tuple[Any, ...]:
    """Values of a type that mean nothing, or nothing that is there."""
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        return tuple(value for one in inner for value in bad_of(one, files))
    if origin is tuple or origin is not None and "Sequence" in str(origin):
        return tuple((value,) for value in bad_of(inner[0], files)) if inner else ()
    if kind is Path:
        return files.bad
    if kind is bytes:
        return (b"", b"\0\1", b"PK\x03\x04")
    return WORDS if kind is str else NUMBERS.get(kind, ())


def altered(options: Any, files: Files) -> Iterator[tuple[str, Call]]:
    """Each field of options with each bad value of its type, as calls: making them may be refused."""
    kinds = typing.get_type_hints(type(options))
    for field in fields(options):
        for value in bad_of(kinds[field.name], files):
            about = f"{type(options).__name__}({field.name}={str(value)[:60]!r})"
            yield about, lambda name=field.name, value=value: replace(options, **{name: value})


def with_options(function: Callable[[Any], object], options: Any, files: Files) -> Iterator[tuple[str, Call]]:
    """The function with each of the altered options."""
    for about, make in altered(options, files):
        yield about, lambda make=make: used(function(make()))


def with_values(function: Callable[[Any], object], kind: Any, files: Files) -> Iterator[tuple[str, Call]]:
    """The function with each bad value of a type."""
    for value in bad_of(kind, files):
        yield repr(value)[:80], lambda value=value: used(function(value))


def used(found: object) -> None:
    """Read what comes one by one; enter a block; so that late errors come too."""
    if hasattr(found, "__enter__"):
        with found:
            return
    if isinstance(found, Iterator):
        list(found)


def of_campaign(files: Files) -> dict[str, Iterator[tuple[str, Call]]]:
    probe = campaign.ProbeOptions(words=("127.0.0.1",))
    stop = {"cancelled": lambda: True}
    resolving = campaign.ResolveOptions(probe, files.new())

    def on_store(function: Callable[[Any], object]) -> object:
        with campaign.open_runs(files.runs) as store:
            return used(function(store))

    def write(options: campaign.ProbeOptions) -> object:
        return campaign.write_run(options, campaign.RunResult(1, "done", files.folder), files.runs, color=False)

    def parquet(folder: Path) -> object:
        with Store(files.new()) as store:
            number = store.begin_run("{}")
            store.record(number, sample_results.run())
            return campaign.export_parquet(store, store.run(number), folder)

    return {
        "run": itertools.chain(
            with_options(lambda options: campaign.run(options, files.new(), **stop), probe, files),
            with_values(lambda db: campaign.run(probe, db, **stop), Path, files),
        ),
        "planned": with_options(campaign.planned, probe, files),
        "planned_targets": with_options(lambda options: campaign.planned_targets(options, str), probe, files),
        "vantages_of": with_options(campaign.vantages_of, probe, files),
        "blocklist_of": with_options(campaign.blocklist_of, probe, files),
        "calls_each": with_options(campaign.calls_each, probe, files),
        "read_template": with_values(campaign.read_template, Path, files),
        "parse_conditions": with_values(campaign.parse_conditions, tuple[str, ...], files),
        "open_runs": with_values(campaign.open_runs, Path, files),
        "find_run": with_values(lambda n: on_store(lambda store: campaign.find_run(store, n)), int, files),
        "score_run": with_values(lambda n: on_store(lambda store: campaign.score_run(store, n)), int | None, files),
        "changes": with_values(lambda n: on_store(lambda store: campaign.changes(store, n, n)), int, files),
        "locked": with_values(lambda path: campaign.locked(path, 1), Path, files),
        "write_run": with_options(write, probe, files),
        "merge": itertools.chain(
            with_options(lambda how: campaign.merge(how, files.new()), campaign.MergeOptions((files.runs,)), files),
            with_values(lambda path: campaign.merge(campaign.MergeOptions((path,)), files.new()), Path, files),
            with_values(lambda db: campaign.merge(campaign.MergeOptions((files.runs,)), db), Path, files),
        ),
        "export_parquet": with_values(parquet, Path, files),
        "resolve_targets": with_options(campaign.resolve_targets, resolving, files),
        "campaign_cost": with_options(campaign.campaign_cost, campaign.PlanOptions(10), files),
    }


def of_capture(files: Files) -> dict[str, Iterator[tuple[str, Call]]]:
    def to(db: Path | None = None) -> capture.Outputs:
        return capture.Outputs(db or files.new(), cancelled=lambda: True)

    def watch_of(number: int) -> object:
        with capture.open_watches(files.runs) as store:
            return capture.find_watch(store, number)

    live = capture.LiveOptions("lo", span_s=0.01)
    sockets = capture.SocketOptions(span_s=0.01)
    recording = str(RECORDING)
    return {
        "CaptureReading": itertools.chain(
            with_values(lambda path: capture.CaptureReading((str(path),)).connections(), Path, files),
            with_values(lambda path: capture.CaptureReading((recording,), keylog=path).connections(), Path, files),
            with_values(lambda name: capture.CaptureReading((name,)).connections(), str, files),
        ),
        "connection_forms": with_values(lambda path: capture.connection_forms(str(path)), Path, files),
        "open_watches": with_values(capture.open_watches, Path, files),
        "find_watch": with_values(watch_of, int, files),
        "watch_interface": itertools.chain(
            with_options(lambda options: capture.watch_interface(options, to()), live, files),
            with_values(lambda db: capture.watch_interface(live, to(db)), Path, files),
        ),
        "watch_sockets": itertools.chain(
            with_options(lambda options: capture.watch_sockets(options, to()), sockets, files),
            with_values(lambda db: capture.watch_sockets(sockets, to(db)), Path, files),
        ),
    }


def of_learning(files: Files) -> dict[str, Iterator[tuple[str, Call]]]:
    db = files.learned

    def load(options: Any, data: bytes = CSV.encode()) -> object:
        return learning.import_file(io.BytesIO(data), "x.csv", options)

    def taught(**options: Any) -> object:
        return learning.run(learning.LearnOptions(db, policy="mab_nc", fresh=True, **options))

    def no_lab() -> Any:
        raise Missing("no lab here")

    making = learning.PolicyOptions(classes="2")
    return {
        "import_file": itertools.chain(
            with_options(load, learning.ImportOptions(files.new()), files),
            with_values(lambda data: load(learning.ImportOptions(files.new()), data), bytes, files),
        ),
        "run": itertools.chain(
            with_options(learning.run, learning.LearnOptions(db, policy="mab_nc"), files),
            with_options(lambda how: taught(policy_options=how), making, files),
        ),
        "evaluate": with_options(learning.evaluate, learning.EvaluateOptions(db, ("mab_nc",)), files),
        "explain": with_options(learning.explain, learning.ExplainOptions(db, "192.0.2.7"), files),
        "export": with_options(learning.export, learning.ExportOptions(db), files),
        "status": with_values(learning.status, Path, files),
        "drop": itertools.chain(
            with_values(lambda path: learning.drop(path, "x"), Path, files),
            with_values(lambda name: learning.drop(db, name), str, files),
        ),
        "knobs_of_policy": itertools.chain(
            with_values(lambda path: learning.knobs_of_policy(path, "x"), Path, files),
            with_values(lambda name: learning.knobs_of_policy(db, name), str, files),
        ),
        "train_initial": with_options(learning.train_initial, learning.InitialOptions(files.new()), files),
        "predict_initial": with_options(learning.predict_initial, learning.WindowsOptions(db, "192.0.2.1"), files),
        "train_indigo": with_options(
            lambda how: learning.train_indigo(how, make_flows=no_lab), learning.IndigoOptions(files.new()), files
        ),
        "show_indigo": with_values(learning.show_indigo, Path, files),
        "evaluate_initial": with_options(learning.evaluate_initial, learning.HitOptions(db), files),
        # A study that is none: no guest is started.
        "fill": with_options(
            lambda options: learning.fill(options, lambda event: None),
            learning.MeasureOptions(files.new(), study="nope"), files,
        ),
    }  # fmt: skip


def of_lease(files: Files) -> dict[str, Iterator[tuple[str, Call]]]:
    options = lease.LeaseOptions(files.tuned, driver="memory")

    def new() -> Path:
        lease.set_profile(path := files.new(), "web", ["initcwnd=20"])
        return path

    def on(function: Callable[..., object]) -> Iterator[tuple[str, Call]]:
        return with_options(function, options, files)

    def at(function: Callable[..., object]) -> Iterator[tuple[str, Call]]:
        """With options altered, their place too."""
        yield from on(function)
        yield from with_options(lambda place: function(replace(options, place=place)), Place(), files)

    def of_name(function: Callable[..., object]) -> Iterator[tuple[str, Call]]:
        yield from with_values(lambda name: function(new(), name), str, files)
        yield from with_values(lambda path: function(path, "x"), Path, files)

    rules = Rules({"web": Profile("web", (("initcwnd", 20),))}, {"192.0.2.0/24": "web"}, "")
    return {
        "plan": at(lease.plan),
        "apply": itertools.chain(
            at(lambda how: lease.apply(how, lease_s=0.0)),
            with_values(lambda s: lease.apply(options, lease_s=s), float, files),
        ),
        "rollback": on(lease.rollback),
        "keep": on(lease.keep),
        "status": on(lease.status),
        "verify": at(lease.verify),
        "recover": on(lease.recover),
        "reapply": on(lease.reapply),
        "watch": itertools.chain(
            on(lambda how: lease.watch(how, lambda events: None, stop=lambda: True)),
            with_values(lambda s: lease.watch(options, lambda events: None, stop=lambda: True, span_s=s), float, files),
        ),
        "Profiles": itertools.chain(
            on(lease.Profiles), with_values(lambda s: lease.Profiles(options, lease_s=s), float, files)
        ),
        "export": itertools.chain(
            at(lambda how: lease.export(how, "iproute2")),
            with_values(lambda form: lease.export(options, form), str, files),
        ),
        "set_profile": itertools.chain(
            of_name(lambda path, name: lease.set_profile(path, name, ["initcwnd=20"])),
            with_values(lambda word: lease.set_profile(new(), "web", [word]), str, files),
            with_values(lambda word: lease.set_profile(new(), "web", [], dropped=[word]), str, files),
            with_values(lambda word: lease.set_profile(new(), "web", [f"initcwnd={word}"]), str, files),
        ),
        "drop_profile": of_name(lease.drop_profile),
        "set_prefixes": itertools.chain(
            of_name(lambda path, name: lease.set_prefixes(path, {name: "web"})),
            with_values(lambda name: lease.set_prefixes(new(), {"192.0.2.0/24": name}), str, files),
            with_values(lambda name: lease.set_prefixes(new(), {"default": name}), str, files),
        ),
        "drop_prefixes": of_name(lambda path, name: lease.drop_prefixes(path, [name])),
        "profile_of": with_values(lambda address: lease.profile_of(rules, address), str, files),
        "acknowledge": of_name(lambda path, one: lease.acknowledge(path, [one])),
        "unacknowledge": of_name(lambda path, one: lease.unacknowledge(path, [one])),
        "acknowledged": with_values(lease.acknowledged, Path, files),
        "history": with_values(lease.history, Path, files),
        "unfreeze": of_name(lambda path, one: lease.unfreeze(path, [one])),
        "wanted": with_values(lease.wanted, Path, files),
        "read_prefixes": with_values(lambda line: lease.read_prefixes([line], "x"), str, files),
        "import_prefixes": itertools.chain(
            with_values(lambda line: lease.import_prefixes(new(), [line], "x"), str, files),
            with_values(lambda db: lease.import_prefixes(db, ["192.0.2.0/24 web"], "x"), Path, files),
        ),
        "absent_namespace": with_options(lease.absent_namespace, Place(), files),
        "examine": with_options(lambda place: lease.knobs(lease.examine(place)), Place(), files),
    }


def of_replay(files: Files) -> dict[str, Iterator[tuple[str, Call]]]:
    sessions = replay.SessionOptions(("mab_nc",), count=300, classes=2)

    def replayed(options: replay.SessionOptions) -> object:
        return replay.replay_sessions(options, files.new(), cancelled=lambda: True)

    return {
        "replay_packets": itertools.chain(
            with_options(
                lambda how: replay.replay_packets(how, files.runs, cancelled=lambda: True),
                replay.PacketOptions((RECORDING,)), files,
            ),
            with_values(lambda db: replay.replay_packets(replay.PacketOptions(run=1), db), Path, files),
        ),
        "adopt": with_values(lambda path: replay.adopt([path]), Path, files),
        "adopt_in": with_values(lambda path: replay.adopt_in([path]), Path, files),
        "captures_in": with_values(replay.captures_in, Path, files),
        "replay_sessions": itertools.chain(
            with_options(replayed, sessions, files),
            with_values(lambda db: replay.replay_sessions(sessions, db, cancelled=lambda: True), Path, files),
        ),
        "resume_sessions": itertools.chain(
            with_values(replay.resume_sessions, Path, files),
            with_values(lambda number: replay.resume_sessions(files.new(), number), str, files),
        ),
        "export_world": with_values(lambda name: replay.export_world([], name, lambda text: None), str, files),
    }  # fmt: skip


MADE: dict[str, Callable[[Files], dict[str, Iterator[tuple[str, Call]]]]] = {
    "campaign": of_campaign, "capture": of_capture, "learning": of_learning, "lease": of_lease, "replay": of_replay,
}  # fmt: skip
# Functions that take only what another of these returned, or nothing.
OF_RESULTS = {
    "campaign": {"baseline_of", "judged", "records_of", "run_folder", "run_rows", "status_of", "vantages_of_run"},
    "capture": {"proofs_of", "watch_rows"},
    "learning": {"knobs_of_tensor", "restored_policy", "saved"},
    "lease": {"driver_names", "knobs"},
    "replay": set(),
}


def run_out(number: int, frame: object) -> None:
    raise TimeoutError


def outcome(call: Call) -> str:
    """Return "" for a result or a `ConfigtronError` of one line; else what came."""
    signal.setitimer(signal.ITIMER_REAL, PATIENCE_S)
    try:
        call()
    except ConfigtronError as error:
        return "" if str(error) and "\n" not in str(error) else f"{type(error).__name__} of several lines"
    except BaseException as error:
        return f"{type(error).__name__}: {str(error)[:200]}"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    return ""


@pytest.mark.slow
@pytest.mark.parametrize("package", PACKAGES)
def test_every_function_is_called(package: str, tmp_path: Path) -> None:
    module = import_module(f"configtron.service.{package}")
    public = {name for name in module.__all__ if isfunction(getattr(module, name))}
    called = {name for name in MADE[package](Files(tmp_path)) if isfunction(getattr(module, name))}
    assert called | OF_RESULTS[package] == public


@pytest.mark.slow
@pytest.mark.parametrize("package", PACKAGES)
def test_an_error_is_one_of_ours_and_of_one_line(package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (there := tmp_path / "current").mkdir()
    monkeypatch.chdir(there)
    before = signal.signal(signal.SIGALRM, run_out)
    try:
        found = [
            f"{name}: {about}: {what}"
            for name, calls in MADE[package](Files(tmp_path)).items()
            for about, call in calls
            if (what := outcome(call))
        ]
    finally:
        signal.signal(signal.SIGALRM, before)
    assert not found, "\n".join(found)
