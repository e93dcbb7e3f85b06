# SPDX-License-Identifier: MIT
"""Functions of `configtron.service`, each with values that are none: errors are `ConfigtronError` of one line."""

from __future__ import annotations

import io
import itertools
import signal
import types
import typing
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass, replace
from functools import partial
from importlib import import_module
from inspect import isfunction
from math import inf, nan
from pathlib import Path
from typing import Any, NamedTuple

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
    if isinstance(kind, type) and issubclass(kind, Path):
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


class Fresh(NamedTuple):
    """A good value that each call needs anew."""

    make: Callable[[], Any]


def now(value: Any) -> Any:
    return value.make() if isinstance(value, Fresh) else value


def varied(files: Files, function: Callable[..., object], /, **good: Any) -> Iterator[tuple[str, Call]]:
    """The function with each argument in turn a bad value of its type, options field by field; the others are good."""
    for name, value in good.items():
        kind = now(value)
        of_type = bad_of(tuple[type(kind[0])] if isinstance(kind, tuple) else type(kind), files)  # type: ignore[misc]
        plain = ((repr(bad)[:80], lambda bad=bad: bad) for bad in of_type)
        for about, make in altered(kind, files) if is_dataclass(kind) else plain:
            yield about, lambda name=name, make=make: used(function(**{
                one: make() if one == name else now(other) for one, other in good.items()}))  # fmt: skip


def used(found: object) -> None:
    """Read what comes one by one; enter a block; so that late errors come too."""
    if hasattr(found, "__enter__"):
        with found:
            return
    if isinstance(found, Iterator):
        list(found)


Calls = dict[str, Iterator[tuple[str, Call]]]
Vary = Callable[..., Iterator[tuple[str, Call]]]
# A good path is never used: only what is no path, or none that can be, is handed in.
ANY = Path("any")
STOP: dict[str, Any] = {"cancelled": lambda: True}


def of_campaign(files: Files, vary: Vary) -> Calls:
    probe, new = campaign.ProbeOptions(words=("127.0.0.1",)), Fresh(files.new)
    of_options = ("planned", "vantages_of", "blocklist_of", "calls_each")

    def on_store(function: Callable[..., object]) -> Iterator[tuple[str, Call]]:
        def call(number: int) -> object:
            with campaign.open_runs(files.runs) as store:
                return used(function(store, number))

        return vary(call, number=1)

    def write(options: campaign.ProbeOptions) -> object:
        return campaign.write_run(options, campaign.RunResult(1, "done", files.folder), files.runs, color=False)

    def parquet(folder: Path) -> object:
        with Store(files.new()) as store:
            number = store.begin_run("{}")
            store.record(number, sample_results.run())
            return campaign.export_parquet(store, store.run(number), folder)

    return {name: vary(getattr(campaign, name), options=probe) for name in of_options} | {
        "run": vary(partial(campaign.run, **STOP), options=probe, db=new),
        "planned_targets": vary(partial(campaign.planned_targets, write=str), options=probe),
        "read_template": vary(campaign.read_template, path=ANY),
        "parse_conditions": vary(campaign.parse_conditions, texts=("",)),
        "open_runs": vary(campaign.open_runs, db=ANY), "find_run": on_store(campaign.find_run),
        "score_run": on_store(campaign.score_run),
        "changes": on_store(lambda store, number: campaign.changes(store, number, number)),
        "locked": vary(partial(campaign.locked, number=1), folder=ANY), "write_run": vary(write, options=probe),
        "merge": vary(campaign.merge, options=campaign.MergeOptions((files.runs,)), db=new),
        "export_parquet": vary(parquet, folder=ANY),
        "resolve_targets": vary(campaign.resolve_targets, options=campaign.ResolveOptions(probe, files.new())),
        "campaign_cost": vary(campaign.campaign_cost, options=campaign.PlanOptions(10)),
    }  # fmt: skip


def of_capture(files: Files, vary: Vary) -> Calls:
    to = Fresh(lambda: capture.Outputs(files.new(), **STOP))

    def watch_of(number: int) -> object:
        with capture.open_watches(files.runs) as store:
            return capture.find_watch(store, number)

    def reading(name: Path | str, keylog: Path | None = None) -> object:
        return capture.CaptureReading((str(name),), keylog=keylog).connections()

    def into(watch: Callable[..., object], options: Any) -> Iterator[tuple[str, Call]]:
        yield from vary(lambda options: watch(options, to.make()), options=options)
        yield from vary(lambda db: watch(options, capture.Outputs(db, **STOP)), db=ANY)

    return {
        "CaptureReading": itertools.chain(
            vary(reading, name=ANY), vary(reading, name=""), vary(partial(reading, str(RECORDING)), keylog=ANY)
        ),
        "connection_forms": vary(lambda path: capture.connection_forms(str(path)), path=ANY),
        "open_watches": vary(capture.open_watches, db=ANY),
        "find_watch": vary(watch_of, number=1),
        "watch_interface": into(capture.watch_interface, capture.LiveOptions("lo", span_s=0.01)),
        "watch_sockets": into(capture.watch_sockets, capture.SocketOptions(span_s=0.01)),
    }


def of_learning(files: Files, vary: Vary) -> Calls:
    db = files.learned
    of_options = {
        "evaluate": learning.EvaluateOptions(db, ("mab_nc",)), "explain": learning.ExplainOptions(db, "192.0.2.7"),
        "export": learning.ExportOptions(db), "train_initial": learning.InitialOptions(files.new()),
        "predict_initial": learning.WindowsOptions(db, "192.0.2.1"), "evaluate_initial": learning.HitOptions(db),
    }  # fmt: skip

    def load(options: Any, data: bytes) -> object:
        return learning.import_file(io.BytesIO(data), "x.csv", options)

    def taught(options: learning.PolicyOptions) -> object:
        return learning.run(learning.LearnOptions(db, policy="mab_nc", fresh=True, policy_options=options))

    def no_lab() -> Any:
        raise Missing("no lab here")

    return {name: vary(getattr(learning, name), options=options) for name, options in of_options.items()} | {
        "import_file": vary(load, options=Fresh(lambda: learning.ImportOptions(files.new())), data=CSV.encode()),
        "run": itertools.chain(
            vary(learning.run, options=learning.LearnOptions(db, policy="mab_nc")),
            vary(taught, options=learning.PolicyOptions(classes="2")),
        ),
        "status": vary(learning.status, db=ANY),
        "drop": vary(learning.drop, db=db, name="x"),
        "knobs_of_policy": vary(learning.knobs_of_policy, db=db, name="x"),
        "train_indigo": vary(
            partial(learning.train_indigo, make_flows=no_lab), options=learning.IndigoOptions(files.new())
        ),
        "show_indigo": vary(learning.show_indigo, folder=ANY),
        # A study that is none: no guest is started.
        "fill": vary(
            partial(learning.fill, progress=lambda event: None),
            options=learning.MeasureOptions(files.new(), study="nope"),
        ),
    }


def of_lease(files: Files, vary: Vary) -> Calls:
    options = lease.LeaseOptions(files.tuned, driver="memory")

    def made() -> Path:
        lease.set_profile(path := files.new(), "web", ["initcwnd=20"])
        return path

    new = Fresh(made)

    def at(function: Callable[..., object], **more: Any) -> Iterator[tuple[str, Call]]:
        """With options altered, their place too."""
        yield from vary(function, options=options, **more)
        yield from vary(lambda place: function(replace(options, place=place), **more), place=Place())

    def with_word(function: Callable[[Any, str], object]) -> Iterator[tuple[str, Call]]:
        return vary(lambda db, word: function(db, word), db=new, word="x")

    def watch(options: lease.LeaseOptions, span_s: float | None = None) -> None:
        lease.watch(options, lambda events: None, stop=lambda: True, span_s=span_s)

    rules = Rules({"web": Profile("web", (("initcwnd", 20),))}, {"192.0.2.0/24": "web"}, "")
    of_options = ("rollback", "keep", "status", "recover", "reapply")
    of_database = ("acknowledged", "history", "wanted")
    return (
        {name: vary(getattr(lease, name), options=options) for name in of_options}
        | {name: vary(getattr(lease, name), database=ANY) for name in of_database}
        | {
            "plan": at(lease.plan),
            "verify": at(lease.verify),
            "apply": at(lease.apply, lease_s=0.0),
            "export": at(lease.export, form="iproute2"),
            "watch": itertools.chain(vary(watch, options=options), vary(partial(watch, options), span_s=0.0)),
            "Profiles": vary(lease.Profiles, options=options, lease_s=10.0),
            "set_profile": itertools.chain(
                with_word(lambda db, name: lease.set_profile(db, name, ["initcwnd=20"])),
                vary(lambda word: lease.set_profile(made(), "web", [word]), word=""),
                vary(lambda word: lease.set_profile(made(), "web", [], dropped=[word]), word=""),
                vary(lambda word: lease.set_profile(made(), "web", [f"initcwnd={word}"]), word=""),
            ),
            "drop_profile": with_word(lease.drop_profile),
            "set_prefixes": itertools.chain(
                with_word(lambda db, name: lease.set_prefixes(db, {name: "web"})),
                vary(lambda name: lease.set_prefixes(made(), {"192.0.2.0/24": name}), name=""),
                vary(lambda name: lease.set_prefixes(made(), {"default": name}), name=""),
            ),
            "drop_prefixes": with_word(lambda db, name: lease.drop_prefixes(db, [name])),
            "profile_of": vary(partial(lease.profile_of, rules), address=""),
            "acknowledge": with_word(lambda db, one: lease.acknowledge(db, [one])),
            "unacknowledge": with_word(lambda db, one: lease.unacknowledge(db, [one])),
            "unfreeze": with_word(lambda db, one: lease.unfreeze(db, [one])),
            "read_prefixes": vary(lambda line: lease.read_prefixes([line], "x"), line=""),
            "import_prefixes": vary(
                lambda db, line: lease.import_prefixes(db, [line], "x"), db=new, line="192.0.2.0/24 web"
            ),
            "absent_namespace": vary(lease.absent_namespace, place=Place()),
            "examine": vary(lambda place: lease.knobs(lease.examine(place)), place=Place()),
        }
    )


def of_replay(files: Files, vary: Vary) -> Calls:
    new, packets = Fresh(files.new), partial(replay.replay_packets, **STOP)
    sessions = replay.SessionOptions(("mab_nc",), count=300, classes=2)
    return {
        "replay_packets": itertools.chain(
            vary(partial(packets, db=files.runs), options=replay.PacketOptions((RECORDING,))),
            vary(partial(packets, replay.PacketOptions(run=1)), db=ANY),
        ),
        "adopt": vary(replay.adopt, captures=(ANY,)),
        "adopt_in": vary(replay.adopt_in, files=(ANY,)),
        "captures_in": vary(replay.captures_in, folder=ANY),
        "replay_sessions": vary(partial(replay.replay_sessions, **STOP), options=sessions, db=new),
        "resume_sessions": vary(replay.resume_sessions, db=new, number="last"),
        "export_world": vary(lambda path: replay.export_world([], path, lambda text: None), path=""),
    }


MADE: dict[str, Callable[[Files, Vary], Calls]] = {
    "campaign": of_campaign, "capture": of_capture, "learning": of_learning, "lease": of_lease, "replay": of_replay,
}  # fmt: skip
# Functions that take only what another of these returned, or nothing.
OF_RESULTS = {
    "campaign": {"baseline_of", "judged", "records_of", "run_folder", "run_rows", "status_of", "vantages_of_run"},
    "capture": {"proofs_of", "watch_rows"}, "learning": {"knobs_of_tensor", "restored_policy", "saved"},
    "lease": {"driver_names", "knobs"}, "replay": set(),
}  # fmt: skip


def calls_of(package: str, folder: Path) -> Calls:
    files = Files(folder)
    return MADE[package](files, partial(varied, files))


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
    called = {name for name in calls_of(package, tmp_path) if isfunction(getattr(module, name))}
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
            for name, calls in calls_of(package, tmp_path).items()
            for about, call in calls
            if (what := outcome(call))
        ]
    finally:
        signal.signal(signal.SIGALRM, before)
    assert not found, "\n".join(found)
