# SPDX-License-Identifier: MIT
"""The class of a client: one rule, for the agent that serves and for the learner.

The coordinates of a class are logarithms of bandwidth, round trip and loss: a megabit matters at one and not at a
hundred. A class may have more coordinates (`NetworkClass.axes`): logarithms of characteristics, codes of categories. A
client without one of the first three has no class; the distance leaves out other unknown coordinates (partial
distance, Dixon 1979).
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from configtron.model.characteristics import BY_NAME
from configtron.model.nouns import Axis, Context, NetworkClass

# Loss below a fifth of a percent changes a page load by less than its noise, so smaller losses count alike.
LOSS_FLOOR = 0.002
# Lower bounds that keep the logarithms finite; no client is below them.
LEAST_KBPS, LEAST_RTT_MS = 1.0, 0.1


def point(context: Context, axes: tuple[Axis, ...] = ()) -> tuple[float, ...] | None:
    """Return (ln kbit/s, ln ms, ln(loss + LOSS_FLOOR), axes...); None while one of the first three is unknown, NaN for
    an unknown axis."""
    if context.bandwidth_kbps is None or context.rtt_ms is None or context.loss is None:
        return None
    kbps, rtt = max(context.bandwidth_kbps, LEAST_KBPS), max(context.rtt_ms, LEAST_RTT_MS)
    base = math.log(kbps), math.log(rtt), math.log(context.loss + LOSS_FLOOR)
    return (*base, *(coordinate(context, axis) for axis in axes))


def coordinate(context: Context, axis: Axis) -> float:
    """Return the coordinate of a context along an axis; NaN where it is unknown."""
    name, codes = axis
    value = getattr(context, name)
    if name in BY_NAME:
        return math.nan if value is None else BY_NAME[name].ln(value)
    return dict(codes).get("" if value is None else str(value), math.nan)


def nearest(classes: Iterable[NetworkClass], context: Context) -> NetworkClass | None:
    """Return the class nearest to a context; None while a performance feature is unknown or no class exists.

    Search the classes of the context's device if there are any, else those for any device.
    """
    every = list(classes)
    here = point(context, every[0].axes if every else ())
    mine = [c for c in every if c.device and c.device == context.device] or [c for c in every if not c.device]
    return None if here is None else min(mine, key=lambda c: (c.distance(here), c.id), default=None)
