# SPDX-License-Identifier: MIT
"""Transfers as a guest's orders, and their results; `transfer_guest.py` runs them.

    found = performed_transfers(arguments, "null", transfers)     parts of `EACH` transfers, a boot each

Rules for this file: values and their text; nothing of sockets.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import NamedTuple

from configtron.learner.initial.end_states import EndStates, end_of, of_rows
from configtron.model.close_records import CLOSED, CloseRecord, OpenRecord
from configtron.model.errors import BadInput
from configtron.model.records import canonical
from configtron.studies.initial_states.clients_world import Transfer
from configtron.studies.initial_states.guest_orders import GuestOrders
from configtron.studies.registry.kinds import Arguments

GUEST = "configtron.studies.initial_states.transfer_guest"
# Transfers of a boot: a boot costs as much as some hundred.
EACH = 600


class Transferred(NamedTuple):
    """Result of a transfer. reason: "" or why it is void.

    seconds      from the client's SYN until it has the last byte
    max_rtt_ms   the largest smoothed round trip that was seen
    early        segments sent again until two and a half of the handshake's round trips after it: losses of the first
                 flight; early_out: data segments sent until then
    rwnd_limited share of the busy time in which the client's window was the limit
    """

    seconds: float
    min_rtt_ms: float
    max_rtt_ms: float
    max_cwnd: int
    packets_in: int
    packets_out: int
    retransmits: int
    early: int
    rwnd_limited: float
    bytes_acked: int
    reason: str = ""
    early_out: int = 0


class DoneTransfers(NamedTuple):
    """Each transfer with its result, failed ones left out; missing: parts that failed, and how many transfers did."""

    pairs: list[tuple[Transfer, Transferred]]
    missing: str


def orders_text(transfers: Sequence[Transfer]) -> str:
    """Return a line, the same for equal transfers."""
    return canonical([list(one) for one in transfers])


def ordered_transfers(text: str) -> list[Transfer]:
    """Return the inverse of `orders_text`. Errors: `BadInput`."""
    try:
        return [Transfer(*row) for row in json.loads(text)]
    except (ValueError, TypeError) as error:
        raise BadInput(f"no transfers: {error}") from error


def results_text(results: Sequence[Transferred]) -> str:
    """Return a line of JSON a transfer."""
    return "".join(canonical(list(one)) + "\n" for one in results)


def results_of(text: str) -> list[Transferred]:
    """Return the inverse of `results_text`. Errors: `BadInput`."""
    try:
        return [Transferred(*json.loads(line)) for line in text.splitlines()]
    except (ValueError, TypeError) as error:
        raise BadInput(f"no results of transfers: {error}") from error


def performed_transfers(arguments: Arguments, name: str, transfers: Sequence[Transfer]) -> DoneTransfers:
    """Run transfers in guests, in parts that are kept. Errors: `Missing`."""
    orders = GuestOrders(GUEST, "transfers", orders_text, results_of, lambda one: one.reason)
    return DoneTransfers(*orders.performed(arguments, name, transfers, EACH))


def record_of(transfer: Transfer, found: Transferred) -> CloseRecord:
    """Return the close record that a driver would make of it, times as ns since 1970."""
    start_ns = int(transfer.at_s * 1e9)
    opened = OpenRecord(
        transfer.prefix, 443, 0, start_ns, None, None, None, False, "", None, None, None,
        round(1e3 * found.min_rtt_ms), False,
    )  # fmt: skip
    return CloseRecord(
        opened, start_ns + round(1e9 * found.seconds), round(1e3 * found.min_rtt_ms), found.max_cwnd,
        found.bytes_acked, 0, found.packets_out, found.retransmits, None, found.rwnd_limited, None, CLOSED,
    )  # fmt: skip


def end_states_of(pairs: Sequence[tuple[Transfer, Transferred]]) -> EndStates:
    """Return end states by close records, with what the guest knows beyond them: MaxRTT and packets in."""
    more = (
        {"max_rtt_ms": max(one.max_rtt_ms, one.min_rtt_ms), "packets_in": float(one.packets_in)} for _, one in pairs
    )
    return of_rows([end_of(record_of(*pair), 0) | each for pair, each in zip(pairs, more, strict=True)])
