"""HTTP/2 SETTINGS: announced and effective.

Question   What does the server announce about its HTTP/2 stack, in which order, and what holds where it is silent?
Method     Preface and an empty SETTINGS; the server's first frame must be its SETTINGS; then a HEAD request, and keep
           listening.
Stop when  SETTINGS came and either a WINDOW_UPDATE or half a second; then the answer's first frame.
Reads as   h2_settings: the ordered (identifier, value) list of the first SETTINGS; one observation per parameter of RFC
           9113 6.5.2: the announced value, or "absent" with the RFC's default as a detail ("effective");
           h2_window_update: the increment on stream 0.
Fails as   not-h2 (ALPN chose something else), h2:no-settings, h2:first-frame-not-settings, h2:goaway-N, tls:*.
Differs    from ConfigTron Table 2, whose "16384 (100 %)" and "4096 (100 %)" read like library defaults: a default is
           never printed as announced here.
Source     RFC 9113 3.4, 6.5, 6.9; RFC 8701 (GREASE); frames by hyperframe.
"""

from __future__ import annotations

from hyperframe.exceptions import HyperframeError
from hyperframe.frame import Frame

from configtron.fingerprint.verdict import no, yes
from configtron.nouns import Observation, Trace, Value

PROBES = ("h2_settings",)
SETTINGS, GOAWAY, WINDOW_UPDATE = 4, 7, 8
# RFC 9113 6.5.2: identifier -> (knob, what holds when it is not announced). None: no limit.
PARAMETERS: dict[int, tuple[str, Value]] = {
    1: ("h2_header_table_size", 4096),
    2: ("h2_enable_push", 1),
    3: ("h2_max_concurrent_streams", "unlimited"),
    4: ("h2_initial_window_size", 65535),
    5: ("h2_max_frame_size", 16384),
    6: ("h2_max_header_list_size", "unlimited"),
}
# The value of a parameter that the server leaves out: a finding, not a failure, and not the default.
ABSENT = "absent"
KNOBS = ("h2_settings", "h2_window_update", *(knob for knob, _ in PARAMETERS.values()))


def infer(trace: Trace) -> tuple[Observation, ...]:
    """Read one TLS trace that offered h2: the eight observations of `KNOBS`."""
    session = trace.session
    if session is None or session.error:
        return _none(trace, session.error if session is not None and session.error else trace.ending)
    if session.alpn != "h2":
        return _none(trace, "not-h2")
    frames = read_frames(b"".join(m.data for m in trace.messages if m.way == "in"))
    if not frames:
        return _none(trace, "h2:no-settings")
    kind, flags, _, body = frames[0]
    if kind == GOAWAY:
        return _none(trace, f"h2:goaway-{int.from_bytes(body[4:8], 'big')}")
    if kind != SETTINGS or flags & 1:
        return _none(trace, "h2:first-frame-not-settings")
    announced = settings_of(body)
    later = [settings_of(b) for k, f, _, b in frames[1:] if k == SETTINGS and not f & 1]
    return (_list(trace, announced, later), _window_update(trace, frames), *_each(trace, announced))


def read_frames(data: bytes) -> list[tuple[int, int, int, bytes]]:
    """(type, flags, stream, body) of every whole frame; stops at bytes that are no frame. Unknown types are kept."""
    frames, at = [], 0
    while at + 9 <= len(data):
        try:
            _, length = Frame.parse_frame_header(memoryview(data[at : at + 9]))
        except (HyperframeError, ValueError):
            break
        if at + 9 + length > len(data):
            break
        stream = int.from_bytes(data[at + 5 : at + 9], "big") & 0x7FFFFFFF
        frames.append((data[at + 3], data[at + 4], stream, data[at + 9 : at + 9 + length]))
        at += 9 + length
    return frames


def settings_of(body: bytes) -> list[tuple[int, int]]:
    """(identifier, value) in wire order, duplicates and unknown identifiers kept (hyperframe's dict would lose
    both)."""
    return [
        (int.from_bytes(body[i : i + 2], "big"), int.from_bytes(body[i + 2 : i + 6], "big"))
        for i in range(0, len(body) - len(body) % 6, 6)
    ]


def _list(trace: Trace, announced: list[tuple[int, int]], later: list[list[tuple[int, int]]]) -> Observation:
    details: dict[str, Value] = {"empty": not announced}
    if later:
        details["later"] = tuple(tuple(pair for pair in one) for one in later)
    names = [identifier for identifier, _ in announced]
    if len(set(names)) < len(names):
        details["duplicated"] = True
    unknown = tuple(i for i in names if i not in PARAMETERS)
    if unknown:
        details["unknown"] = unknown
    return yes("h2_settings", tuple(announced), trace, "", "first SETTINGS frame", "C", _frames(trace), details)


def _window_update(trace: Trace, frames: list[tuple[int, int, int, bytes]]) -> Observation:
    for kind, _, stream, body in frames:
        if kind == WINDOW_UPDATE and stream == 0 and len(body) == 4:
            increment = int.from_bytes(body, "big") & 0x7FFFFFFF
            return yes("h2_window_update", increment, trace, "bytes", "WINDOW_UPDATE on stream 0", "C", _frames(trace))
    return yes("h2_window_update", ABSENT, trace, "bytes", "none on stream 0", "C", _frames(trace))


def _each(trace: Trace, announced: list[tuple[int, int]]) -> list[Observation]:
    """One observation per parameter; the last of duplicates counts (RFC 9113 6.5.3)."""
    values = dict(announced)
    found = []
    for identifier, (knob, default) in PARAMETERS.items():
        if identifier in values:
            found.append(yes(knob, values[identifier], trace, "", "announced in SETTINGS", "C", _frames(trace)))
        else:
            found.append(yes(knob, ABSENT, trace, "", "not in SETTINGS", "C", _frames(trace), {"effective": default}))
    return found


def _none(trace: Trace, reason: str) -> tuple[Observation, ...]:
    return tuple(no(knob, reason or "closed", trace) for knob in KNOBS)


def _frames(trace: Trace) -> tuple[int, ...]:
    """The frames that carried the server's stream."""
    return tuple(p.frame for p in trace.packets if p.way == "in" and p.segment.length > 0)[:4]
