# SPDX-License-Identifier: MIT
"""Each trial twice in a guest, without a tunnel and inside it: figures by the tunnel's log and by the wire's.

    perform(orders, folder, means) -> text

Orders are JSON: the trials (`flows.orders_of`), each of one flow of a kernel's scheme, and `ahead_ns`, by which the
client's clock is made to be ahead on the wire's log. The text has a line of JSON a trial: `Tunnelled`.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from ipaddress import IPv4Address
from pathlib import Path
from socket import IPPROTO_UDP

from configtron.lab.testbed.network import CLIENT, SERVERS, Testbed, raise_testbed
from configtron.lab.testbed.stack import DEVICE
from configtron.lab.testbed.tap import Seen, Tap
from configtron.lab.testbed.transits import Transits, flow_metrics, transits
from configtron.lab.testbed.tunnel import DEVICE as TUNNEL_DEVICE
from configtron.lab.testbed.tunnel import INNER, PORT, Tunnel
from configtron.lab.testbed.wires import CLIENT_ADDRESS
from configtron.model.errors import BadInput
from configtron.model.records import canonical
from configtron.studies.flows import flows, throttle
from configtron.studies.flows.clocks import ahead_ns, corrected
from configtron.studies.flows.flows import Trial
from configtron.studies.guests.parts import Means


@dataclass(frozen=True)
class Tunnelled:
    """A trial's figures: Mbit/s of IP packets, and the 95th percentile of one-way delay in ms.

    plain     beside the tunnel
    inner     inside, by the packets at the tunnel's ends
    outer     inside, by the packets on the wire, the tunnel's own bytes too; one clock
    estimate  by which the client's clock is ahead, as the wire's log of two clocks shows it
    repaired  the delay by that log, after the estimate was taken off
    apart     the delay by that log as it is
    """

    scheme: str
    plain_mbit: float
    plain_ms: float
    inner_mbit: float
    inner_ms: float
    outer_mbit: float
    outer_ms: float
    estimate_ns: int
    repaired_ms: float
    apart_ms: float


def orders_of(trials: list[Trial], ahead: int) -> str:
    """Return the orders of a part."""
    return canonical({"trials": flows.orders_of(trials), "ahead_ns": ahead})


def tunnelled_of(text: str) -> list[Tunnelled]:
    """Return what a part found. Errors: `BadInput`."""
    try:
        return [Tunnelled(**json.loads(line)) for line in text.splitlines()]
    except (ValueError, TypeError) as error:
        raise BadInput(f"no figures of a tunnel: {error}") from error


def perform(orders: str, folder: Path, means: Means) -> str:
    """All trials. Errors: `BadInput`, `Mismatch`."""
    form = json.loads(orders)
    trials = flows.trials_of(form["trials"])
    player = Path(means.programs.player)
    testbed = raise_testbed(trials[0].condition, [throttle.ORIGIN], player=player)
    try:
        found = [_both(testbed, player, trial, int(form["ahead_ns"])) for trial in trials]
    finally:
        testbed.close()
    return "".join(canonical(asdict(one)) + "\n" for one in found)


def _both(testbed: Testbed, player: Path, trial: Trial, ahead: int) -> Tunnelled:
    (plain,) = throttle.race(testbed, player, trial).outcomes
    address = testbed.addresses[throttle.ORIGIN]
    with Tunnel(address):
        taps = [Tap(*place, PORT, PORT, IPPROTO_UDP) for place in ((SERVERS, DEVICE), (CLIENT, throttle.into(testbed)))]
        inside = throttle.race(testbed, player, trial, throttle.Ends(INNER, TUNNEL_DEVICE, TUNNEL_DEVICE))
        server, client = (tap.close() for tap in taps)
    (inner,) = inside.outcomes
    if plain.reason or inner.reason:
        raise BadInput(f"a flow of {trial.flows[0].scheme}: {plain.reason or inner.reason}")
    forward, back = wire(server, client, ahead)
    span = (inside.began_ns, inside.began_ns + round(trial.duration_s * 1e9))
    estimate = ahead_ns(forward, back)
    outer = flow_metrics(corrected(forward, ahead), *span)
    return Tunnelled(
        plain.scheme, plain.mbit, plain.late_ms, inner.mbit, inner.late_ms, round(outer.mbit, 6),
        round(outer.late_ms, 6), estimate, _late_ms(corrected(forward, estimate), span), _late_ms(forward, span),
    )  # fmt: skip


def _late_ms(found: Transits, span: tuple[int, int]) -> float:
    return round(flow_metrics(found, *span).late_ms, 6)


def wire(server: Seen, client: Seen, ahead: int) -> tuple[Transits, Transits]:
    """Return the packets to the client and those back, the client's stamps made to be ahead. Errors: `Mismatch`."""
    client = client.copy()
    client["at_ns"] += ahead
    its = int(IPv4Address(CLIENT_ADDRESS))
    ours, theirs = (log[log["source"] != its] for log in (server, client))
    sent_back, came_back = (log[log["source"] == its] for log in (client, server))
    return transits(ours, theirs), transits(sent_back, came_back)
