# SPDX-License-Identifier: MIT
"""Why a connection was slow, in words: its largest limit, and what a person should know beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from configtron.fingerprint.passive.columns import FILE_SHIFT, FRAME_MASK
from configtron.fingerprint.passive.limits import Limit, limits

# By limit: what is said of it. `s`: its seconds, `share`: of the duration, `times`, `frame`: its first evidence.
WORDS = {
    "handshake": "handshake {s}", "server": "server thought {s}", "client": "client thought {s}",
    "receive-window": "receive window {share}", "sender": "sender's application or buffer {share}",
    "congestion": "congestion window {share}", "timeout": "timeouts {s}, {times} x from frame {frame}",
    "tail-probe": "tail loss probes {s}, {times} x from frame {frame}",
    "fast-retransmit": "fast retransmits {share}, {times} x", "loss": "repeats without known cause {s}, {times} x",
    "path-mtu": "path MTU: full segments lost {times} x from frame {frame}", "round-trip": "round trips {share}",
    "end": "open {s} after the last data", "unknown": "unknown {share}",
}  # fmt: skip
# The first byte of an answer is slow if it takes most of the time.
SLOW_SHARE = 0.5


def slow_because(numbers: Mapping[str, float | None], known: Sequence[Limit] | None = None) -> str:
    """Return it by a connection's numbers (`ConnectionReport.numbers`), and its limits, if they are known; "" where no
    time passed; of one that never opened, why."""
    syns = int(numbers["syns"] or 0)
    if syns and not any(numbers[name] for name in ("synacks", "client_bytes", "server_bytes")):
        return "refused" if numbers["server_resets"] else f"no SYN-ACK to {syns} SYN{'s' * (syns > 1)}"
    shares = limits(numbers) if known is None else known
    if not shares:
        return ""
    whole, first = sum(one.ns for one in shares), shares[0]
    said = [first, *(one for one in shares[1:] if one.limit == "path-mtu")]
    words = [
        WORDS[one.limit].format(
            s=f"{one.ns / 1e9:.{1 if one.ns >= 1e9 else 3}f} s",
            share=f"{100 * one.ns / whole:.0f} %",
            times=one.times,
            frame=frame_name(min(one.frames, default=0), int(numbers["frame"] or 0)),
        )  # fmt: skip
        for one in said
    ]
    if first.limit == "server" and not numbers["server_bytes"]:
        words[0] = words[0].replace("thought", "did not answer for")
    elif first.limit == "server" and first.times == 1 and first.ns >= SLOW_SHARE * whole:
        words[0] = f"slow first byte: {words[0]}"
    if syns > 1:
        words.append(f"SYN sent {syns} x")
    closed = [
        f"{side}'s {count} x" for side in ("client", "server") if (count := int(numbers[f"{side}_zero_windows"] or 0))
    ]
    words += [f"zero window: {', '.join(closed)}"] if closed else []
    if told := int(numbers["frag_needed"] or 0):
        # 0: the router did not state it (RFC 1191)
        mtu = int(numbers["frag_needed_mtu"] or 0)
        words.append(f"ICMP fragmentation needed {told} x, MTU {mtu}".removesuffix(", MTU 0"))
    return "; ".join(words)


def frame_name(frame: int, own: int) -> str:
    """Return a frame's number, 17; with its file, 2:17, where frame `own` is in another. Both: file << 40 | number."""
    file = frame >> FILE_SHIFT
    return f"{file + 1}:" * (file != own >> FILE_SHIFT) + str(frame & FRAME_MASK)
