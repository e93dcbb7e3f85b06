# SPDX-License-Identifier: MIT
"""The makers that a manager can be run with: one map from a file, or a policy that learns which map is best."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from hashlib import blake2b
from pathlib import Path
from secrets import token_bytes
from typing import Any

from nacl.signing import SigningKey

from configtron.db.end_state_rows import EndStateRows
from configtron.db.tuning import Tuning
from configtron.fleet.map_document import LEAST_EPOCH_S, LEAST_LEASE_S, MOST_EPOCH_S, MOST_LEASE_S
from configtron.fleet.transport.curve_keys import signing_key
from configtron.learner.closed_loop import LoopOptions
from configtron.learner.initial.end_states import EndStates
from configtron.learner.loop_maker import LoopMapMaker
from configtron.learner.map_making import MapOptions
from configtron.learner.window_classes import SHARES, checked_shares
from configtron.learner.window_maker import INITIAL, LEAST_OF_PREFIX, MOST_LEARNED, MOST_OF_ONE, WindowMapMaker
from configtron.model.bounds import check_number, check_text
from configtron.model.draw import PARTS, Mix
from configtron.model.errors import BadInput
from configtron.model.fleet import Band, FleetMap, OutcomeRow
from configtron.model.grid import Grid
from configtron.model.knobs import KNOBS
from configtron.model.nouns import Knob, Profile
from configtron.model.records import Json
from configtron.model.tuning_json import named, setting_of, value_text
from configtron.service.fleet.learner_process import LearnerRecipe
from configtron.service.fleet.manager import ManagerOptions
from configtron.service.fleet.map_maker import Barred, FixedMapMaker, LearningMaker, MapMaker
from configtron.service.fleet.stages import StageOptions, Stages
from configtron.service.learning.importable import check_classes, importable
from configtron.tune.rules import canonical

log = logging.getLogger("configtron.fleet")

# s for which a map from a file is valid without a manager, and at most.
VALID_S = 6 * 3600.0
MOST_VALID_S = 10 * 365 * 86_400.0
KEY_BYTES = 16
# Members of a map's JSON object, and the bounds of its numbers: (name, least, most, whether it is a whole number).
MEMBERS = ("profiles", "mixes", "prefixes", "bands", "holdback", "epoch_s", "ports", "lease_s", "valid_s")
NUMBERS = (("holdback", 0, 1, False), ("epoch_s", LEAST_EPOCH_S, MOST_EPOCH_S, True),
           ("lease_s", LEAST_LEASE_S, MOST_LEASE_S, False), ("valid_s", 1, MOST_VALID_S, False))  # fmt: skip
# Bands of a handshake's round trip, ms: those of the longest ways, and a minute.
LEAST_BAND_MS, MOST_BAND_MS = 0.001, 60_000.0
# Between two tries to read a file that cannot be read: for want of descriptors, by an error of its disk.
AGAIN_NS = 5_000_000_000
OTHER_MAKER = "the database was used by a manager that learns (--policy); to forget what it learned: --fresh"


class UnreadableMapFile(BadInput):
    """A file that is there cannot be read now: it may be later."""


class FileMapMaker:
    """Make the map that a file describes, again whenever the file changes.

    {"profiles": {"fast": {"initcwnd": 20}, "default": {}}, "mixes": {"near": {"fast": 0.9, "default": 0.1}},
     "prefixes": {"192.0.2.0/24": "near"}, "bands": [[20, "near"]], "holdback": 0.05, "epoch_s": 600,
     "ports": [80, 443], "lease_s": 3, "valid_s": 21600}

    Shares of a mix and holdback: 0 to 1; bands: ms of handshake. Only profiles, mixes and prefixes must be there.
    """

    def __init__(self, path: Path) -> None:
        # State of the file that was read last; wall clock of the last try that failed, and why it did.
        self._seen, self._failed_ns, self._complaint = (0, 0, 0), -AGAIN_NS, ""
        self._path, self._key = path, token_bytes(KEY_BYTES)
        self._maker = self._read()

    def _read(self) -> FixedMapMaker:
        try:
            seen, data = self._stamp(), self._path.read_bytes()
        except OSError as error:
            raise UnreadableMapFile(f"{self._path}: {error.strerror}") from error
        # Not before all of it was read: what is not read is to be tried again.
        self._seen = seen
        return self._maker_of(data)

    def _maker_of(self, data: bytes) -> FixedMapMaker:
        try:
            form = json.loads(data, object_pairs_hook=_members)
            return FixedMapMaker(map_of_form(form, self._key), float(form.get("valid_s", VALID_S)))
        except BadInput as error:
            raise BadInput(f"{self._path}: {error}") from error
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
            raise BadInput(
                f"{self._path}: not a map ({type(error).__name__}: {error}); docs/fleet.md shows one"
            ) from error

    def _stamp(self) -> tuple[int, int, int]:
        found = self._path.stat()
        return found.st_ino, found.st_mtime_ns, found.st_size

    def observe(self, rows: Sequence[OutcomeRow]) -> None:
        """Take rows; a map from a file learns nothing."""

    def make(self, now_ns: int, barred: Barred) -> FleetMap | None:
        """Return the file's map once it has changed. A file without a valid map, or that cannot be read, leaves the map
        as it is, with a warning; one that cannot be read is tried again."""
        if abs(now_ns - self._failed_ns) >= AGAIN_NS:
            self._follow(now_ns)
        return self._maker.make(now_ns, barred)

    def _follow(self, now_ns: int) -> None:
        """Read the file if it is not the one that was read last."""
        try:
            try:
                if self._stamp() == self._seen:
                    return
            except OSError as error:
                raise UnreadableMapFile(f"{self._path}: {error.strerror}") from error
            self._maker = self._read()
        except UnreadableMapFile as error:
            self._failed_ns = now_ns
            if str(error) != self._complaint:
                self._complaint = str(error)
                log.warning("the map stays as it is, and its file is tried again: %s", error)
        except BadInput as error:
            log.warning("the map stays as it is: %s", error)
        else:
            if self._complaint:
                log.info("%s: the map's file is read again", self._path)
            self._complaint = ""

    def save(self) -> str:
        """Return the key of the draw."""
        return self._key.hex()

    def restore(self, text: str) -> None:
        """Take over the key of the draw, so that clients keep their arms. Errors: `BadInput`."""
        try:
            key = bytes.fromhex(text)
        except ValueError as error:
            raise BadInput(OTHER_MAKER) from error
        if len(key) != KEY_BYTES:
            raise BadInput(OTHER_MAKER)
        self._key = key
        self._maker = self._read()


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the members of a JSON object, each of which stands once. Errors: `BadInput`."""
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise BadInput(f"{name!r} stands twice in one object")
        found[name] = value
    return found


def map_of_form(form: dict[str, Any], key: bytes) -> FleetMap:
    """Return the map of a JSON object. Errors: `BadInput`, and those of an object of another form."""
    _check_form(form)
    profiles = {name: profile_of_form(name, settings) for name, settings in form["profiles"].items()}
    mixes = {}
    for name, shares in form["mixes"].items():
        mix = Mix.of([(profile, float(share)) for profile, share in shares.items()])
        mixes[name] = tuple(zip(mix.profiles, mix.weights, strict=True))
    prefixes = _members([(canonical(prefix), name) for prefix, name in form["prefixes"].items()])
    _check_classes(form, prefixes)
    bands = tuple(Band(round(float(ms) * 1000), name) for ms, name in form.get("bands", []))
    return FleetMap(0, 0, profiles, mixes, prefixes, key, 0, bands, round(float(form.get("holdback", 0.05)) * PARTS),
                    int(form.get("epoch_s", 600)), tuple(form.get("ports", (80, 443))),
                    float(form.get("lease_s", 3.0)))  # fmt: skip


def _check_form(form: dict[str, Any]) -> None:
    """Check members and numbers: what no agent takes is found before it is signed. Errors: `BadInput`."""
    if strange := sorted(form.keys() - MEMBERS):
        raise BadInput(f"a map has no member {strange[0]!r}; it has {', '.join(MEMBERS)}")
    for name in (*form["profiles"], *form["mixes"]):
        check_text("a name in the map", name)
        if not name.isprintable():
            raise BadInput(f"a name in the map: {name[:60]!r} has a character that does not print")
    for name, least, most, whole in NUMBERS:
        check_number(name, form.get(name, least), least, most, whole=whole)
    for port in form.get("ports", []):
        check_number("ports", port, 1, 65_535, whole=True)
    for ms, _ in form.get("bands", []):
        check_number("bands", ms, LEAST_BAND_MS, MOST_BAND_MS)


def _check_classes(form: dict[str, Any], prefixes: Mapping[str, str]) -> None:
    """Check that classes have a mix, and mixes their profiles. Errors: `BadInput`."""
    classes, profiles = form["mixes"].keys(), form["profiles"].keys()
    for what, names in (("prefixes", prefixes.values()), ("a band", (name for _, name in form.get("bands", [])))):
        if absent := sorted({*names} - classes):
            raise BadInput(f"class {absent[0]!r} has {what} and no mix")
    for name, shares in form["mixes"].items():
        if absent := sorted(shares.keys() - profiles):
            raise BadInput(f"class {name!r} names profile {absent[0]!r}, which the map lacks")


def profile_of_form(name: str, settings: dict[str, Any]) -> Profile:
    """Return a profile of a JSON object, each value as its knob takes it. Errors: `BadInput`, which names profile and
    setting."""
    try:
        return Profile(name, named(dict(setting_of(f"{knob}={value_text(value)}") for knob, value in settings.items())))
    except BadInput as error:
        raise BadInput(f"profile {name!r}: {error}") from error


def learning_maker(database: Path, policy: str, options: MapOptions) -> LoopMapMaker:
    """Return a maker that learns which of the database's profiles is best.

    Errors: `BadInput` without a profile; `Missing` without the packages that classes are made by.
    """
    check_classes()
    importable([policy])
    with Tuning(database) as tuning:
        profiles = list(tuning.wanted().profiles.values())
    if not profiles:
        raise BadInput("no profile to choose from; make one or more: configtron tune profile set NAME KNOB=VALUE")
    return LoopMapMaker(LoopOptions(grid_of(profiles), policy, options), token_bytes(KEY_BYTES))


def window_maker(database: Path, options: MapOptions, strategies: str = "") -> WindowMapMaker:
    """Return a maker that sets initial windows by the ends of earlier connections (`learn initial`).

    strategies  shares as they are typed, NAME=SHARE,...; "": `SHARES`

    Errors: `BadInput` for shares; `Missing` without the packages that windows are learned by.
    """
    check_classes()
    shares = shares_of(strategies) if strategies else SHARES

    def known() -> EndStates:
        with EndStateRows(database, read_only=True) as store:
            return store.latest(MOST_LEARNED, MOST_OF_ONE)

    return WindowMapMaker(known, options, token_bytes(KEY_BYTES), shares)


def shares_of(text: str) -> dict[str, float]:
    """Return strategy -> share of NAME=SHARE,... Errors: `BadInput`."""
    found = {}
    for part in text.split(","):
        name, _, share = part.partition("=")
        try:
            found[name.strip()] = float(share)
        except ValueError as error:
            raise BadInput(f"--strategies {text!r}: write NAME=SHARE,..., as null=0.5,resume=0.5") from error
    return checked_shares(found)


def chosen_maker(options: ManagerOptions, map_file: Path | None, policy: str | None, stages: StageOptions,
                 strategies: str = "") -> MapMaker | LearnerRecipe:  # fmt: skip
    """Return the maker of a file's map, or how a process makes that of a policy, and the stages by which its maps reach
    clients.

    Errors: `BadInput` unless either is named; those of `policy_maker`, which the process would have too.
    """
    if (map_file is None) == (policy is None):
        raise BadInput("name either --map FILE or --policy POLICY (configtron learn policies)")
    if map_file is not None:
        return FileMapMaker(map_file)
    key = draw_key(signing_key(options.keys)).hex()
    arguments: dict[str, Json] = {"policy": policy, "stages": asdict(stages), "key": key, "strategies": strategies}
    _, made = policy_maker(options.database, arguments)
    return LearnerRecipe(options.database, f"{__name__}:{policy_maker.__name__}", arguments, made is not None)


def policy_maker(database: Path, arguments: Mapping[str, Any]) -> tuple[MapMaker, Stages | None]:
    """Return a policy's maker and its stages, from the arguments of `chosen_maker`.

    Errors: those of `learning_maker` and `StageOptions.made`.
    """
    policy = arguments["policy"]
    check_strategies(policy, strategies := arguments.get("strategies", ""))
    maps = MapOptions(least_clients=LEAST_OF_PREFIX, new_prefixes=MOST_LEARNED) if policy == INITIAL else MapOptions()
    maker: LearningMaker = (
        window_maker(database, maps, strategies) if policy == INITIAL else learning_maker(database, policy, maps)
    )
    return maker, StageOptions(**arguments["stages"]).made(bytes.fromhex(arguments["key"]), maker.note, maps)


def check_strategies(policy: str, strategies: str) -> None:
    """Refuse shares of strategies where the policy has none. Errors: `BadInput`."""
    if strategies and policy != INITIAL:
        raise BadInput(f"--strategies is of --policy {INITIAL}; {policy} chooses shares by itself")


def draw_key(key: SigningKey) -> bytes:
    """Return the key that the dark hours are drawn by: always the same for a manager, and no other key."""
    return blake2b(bytes(key), digest_size=KEY_BYTES, person=b"dark hours").digest()


def grid_of(profiles: Sequence[Profile]) -> Grid:
    """Return the configurations of profiles, Default first."""
    knobs = []
    for name in sorted({knob for profile in profiles for knob, _ in profile.settings}):
        known = KNOBS[name]
        given = {dict(profile.settings)[name] for profile in profiles if name in dict(profile.settings)}
        values = tuple(sorted({value for value in given | {known.default} if value is not None}, key=str))
        default = values[0] if known.default is None else known.default
        knobs.append(Knob(name, known.layer, known.unit, default, values, known.scope))
    rows = [
        tuple(knob.values.index(dict(profile.settings).get(knob.name, knob.default)) for knob in knobs)
        for profile in (Profile("default"), *profiles)
    ]
    return Grid(tuple(knobs), tuple(dict.fromkeys(rows)))
