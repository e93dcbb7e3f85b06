# SPDX-License-Identifier: MIT
"""A map of classes as canonical JSON text: equal maps are equal bytes; the key of the draw is kept apart."""

from __future__ import annotations

import json
from typing import Any

from configtron.model.errors import BadInput
from configtron.model.fleet import Band, FleetMap
from configtron.model.nouns import Profile
from configtron.model.records import canonical, pairs_form, pairs_of


def map_text(fleet_map: FleetMap) -> str:
    """Return a map without its key."""
    profiles = {name: pairs_form(profile.settings) for name, profile in fleet_map.profiles.items()}
    mixes = {name: [list(arm) for arm in mix] for name, mix in fleet_map.mixes.items()}
    form: dict[str, Any] = {
        "term": fleet_map.term, "version": fleet_map.version, "profiles": profiles, "mixes": mixes,
        "prefixes": dict(fleet_map.prefixes), "bands": [[one.up_to_us, one.class_name] for one in fleet_map.bands],
        "holdback": fleet_map.holdback, "epoch_s": fleet_map.epoch_s, "ports": list(fleet_map.ports),
        "lease_s": fleet_map.lease_s, "not_after_ns": fleet_map.not_after_ns,
    }  # fmt: skip
    return canonical(form)


def map_of_text(text: str, key: bytes) -> FleetMap:
    """Return the map that `map_text` wrote, with its key. Errors: `BadInput` for other text."""
    try:
        form = json.loads(text)
        return FleetMap(
            form["term"],
            form["version"],
            {name: Profile(name, pairs_of(pairs)) for name, pairs in form["profiles"].items()},
            {name: tuple((profile, weight) for profile, weight in mix) for name, mix in form["mixes"].items()},
            form["prefixes"],
            key,
            form["not_after_ns"],
            tuple(Band(up_to_us, name) for up_to_us, name in form["bands"]),
            form["holdback"],
            form["epoch_s"],
            tuple(form["ports"]),
            form["lease_s"],
        )
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise BadInput(f"this is no map of classes ({error}); restore a copy of the database") from error
