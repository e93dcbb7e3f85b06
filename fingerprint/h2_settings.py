# SPDX-License-Identifier: MIT
"""HTTP/2: the parameters that a server announces, their order, the defaults of the others, and its GOAWAY.

Question   Which HTTP/2 parameters does the server announce, at first and later, and which values hold for the others?
Method     Preface and an empty SETTINGS; the server's first frame must be its SETTINGS; then a GET, and keep listening.
           A client may ask before SETTINGS came (RFC 9113 3.4): after two seconds without them we do.
Stop when  SETTINGS came, and either a WINDOW_UPDATE or its acknowledgement of ours; then the answer's head, or GOAWAY.
Reads as   h2_settings: the ordered (identifier, value) list of the first SETTINGS; one observation per parameter of RFC
           9113 6.5.2: the announced value, or "absent" with the RFC's default as a detail ("effective");
           h2_window_update: the increment on stream 0; h2_later_settings: the lists of all further SETTINGS;
           h2_goaway: the error's name; h2_reserved: identifiers that IANA does not know, all GREASE as "grease".
           SETTINGS that came only after the request: detail "after_request"; values that the RFC forbids: "invalid".
           Dropped: PING, PRIORITY, ALTSVC, ORIGIN, since they announce no parameter; DATA.
           a frame is reported "absent" only when one came that it would have had to precede.
Fails as   not-h2 (ALPN chose something else), h2:no-settings, h2:first-frame-not-settings, h2:goaway-N, no-data (the
           answer that would show an absence did not come), tls:*.
Differs    from ConfigTron Table 2, whose "16384 (100 %)" and "4096 (100 %)" read like library defaults: a default is
           never printed as announced here.
Source     RFC 9113 3.4, 5.4.1, 6.5, 6.8, 6.9, 7; RFC 8701 (GREASE); IANA "HTTP/2 Settings".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from configtron.fingerprint.h2_frames import (
    ACK,
    GOAWAY,
    HEADERS,
    SETTINGS,
    WINDOW_UPDATE,
    Http2Frame,
    fields_of,
    read_frames,
    settings_of,
)
from configtron.fingerprint.head import header_details
from configtron.fingerprint.verdict import count_grade, ended, no, settled, yes
from configtron.fingerprint.window_proofs import CAPTURE
from configtron.model.nouns import Observation, Trace, Value

PROBES = ("h2_settings",)
# RFC 9113 6.5.2: identifier -> (knob, value when not announced). None: no limit.
PARAMETERS: dict[int, tuple[str, Value]] = {
    1: ("h2_header_table_size", 4096), 2: ("h2_enable_push", 1), 3: ("h2_max_concurrent_streams", "unlimited"),
    4: ("h2_initial_window_size", 65535), 5: ("h2_max_frame_size", 16384), 6: ("h2_max_header_list_size", "unlimited"),
}  # fmt: skip
# The values that RFC 9113 6.5.2 lets a server announce; any other is an error of its own, and kept.
ALLOWED = {2: range(1), 4: range(1 << 31), 5: range(16384, 1 << 24)}
# IANA "HTTP/2 Settings" beside those: ENABLE_CONNECT_PROTOCOL, NO_RFC7540_PRIORITIES, TLS_RENEG_PERMITTED.
REGISTERED = (*PARAMETERS, 8, 9, 16)
# RFC 9113 7: error codes by name.
ERRORS = (
    "no-error", "protocol-error", "internal-error", "flow-control-error", "settings-timeout", "stream-closed",
    "frame-size-error", "refused-stream", "cancel", "compression-error", "connect-error", "enhance-your-calm",
    "inadequate-security", "http-1-1-required",
)  # fmt: skip
# The value of a parameter that the server leaves out: a finding, not a failure, and not the default.
ABSENT, GREASE = "absent", "grease"
# A GOAWAY's words: enough to recognise them.
DEBUG_LIMIT_BYTES = 80
ASKED = ("h2_later_settings", "h2_goaway")
KNOBS = ("h2_settings", "h2_reserved", "h2_window_update", *(knob for knob, _ in PARAMETERS.values()), *ASKED)

Pairs = Sequence[tuple[int, int]]


def infer(trace: Trace) -> tuple[Observation, ...]:
    """Read one TLS trace that offered h2: an observation for each of `KNOBS`; `ASKED` only if a page was asked for."""
    session = trace.session
    if session is None or session.error:
        return _none(trace, session.error if session is not None and session.error else trace.ending)
    if session.alpn != "h2":
        return _none(trace, "not-h2")
    frames = read_frames(b"".join(m.data for m in trace.messages if m.way == "in"))
    if not frames:
        return _none(trace, trace.ending if trace.ending.startswith("tls:") else "h2:no-settings")
    first, goaway = frames[0], _goaway(trace, frames)
    if first.kind == GOAWAY:
        found = _none(trace, f"h2:goaway-{int.from_bytes(first.body[4:8], 'big')}")
        return tuple(goaway if o.knob == goaway.knob else o for o in found)
    if first.kind != SETTINGS or first.flags & ACK:
        return _none(trace, "h2:first-frame-not-settings")
    announced = settings_of(first.body)
    found = (_list(trace, announced, frames), _reserved(trace, announced), _window_update(trace, frames))
    asked = (_later(trace, frames), goaway) if trace.param("ask", True) else ()
    return (*found, *_each(trace, announced), *asked)


def _list(trace: Trace, announced: Pairs, frames: Sequence[Http2Frame]) -> Observation:
    details: dict[str, Value] = {"empty": not announced}
    names = [identifier for identifier, _ in announced]
    if len(set(names)) < len(names):
        details["duplicated"] = True
    if unknown := tuple(i for i in names if i not in PARAMETERS):
        details["unknown"] = unknown
    if frames[0].stream or len(frames[0].body) % 6:
        details["malformed"] = True
    if invalid := tuple(i for i, v in announced if v not in ALLOWED.get(i, (v,))):
        details["invalid"] = invalid
    if _asked_first(trace):
        details["after_request"] = True
    if any(_is_grease(i) for i in names):
        # Reserved identifiers are drawn anew for each connection: two servers are compared without them.
        details["effective"] = tuple((i, v) for i, v in announced if not _is_grease(i))
    details["akamai"] = _akamai(announced, frames)
    if fields := fields_of(list(frames)):
        status = dict(fields).get(":status", "")
        details.update(header_details(int(status) if status.isdigit() else 0, fields))
    return yes("h2_settings", tuple(announced), trace, "", "first SETTINGS frame", "C", _frames(trace), details)


def _asked_first(trace: Trace) -> bool:
    """Return whether a probe's request, its second message, went out before any SETTINGS came."""
    ours = [n for n, message in enumerate(trace.messages) if message.way == "out"][:2]
    heard = b"".join(m.data for m in trace.messages[: ours[-1]] if m.way == "in") if len(ours) > 1 else b""
    asked = len(ours) > 1 and trace.vantage != CAPTURE
    return asked and not any(frame.kind == SETTINGS for frame in read_frames(heard))


def _akamai(announced: Pairs, frames: Sequence[Http2Frame]) -> str:
    """Return SETTINGS and WINDOW_UPDATE in the form that Akamai gave them: S|WU|P|PS, the last two being a client's."""
    pairs = ";".join(f"{i}:{v}" for i, v in announced if not _is_grease(i))
    return f"{pairs}|{_increment(frames) or '00'}|0|"


def _is_grease(identifier: int) -> bool:
    """RFC 8701: 0x0a0a, 0x1a1a, ... 0xfafa."""
    return identifier & 0x0F0F == 0x0A0A and identifier >> 8 == identifier & 0xFF


def _reserved(trace: Trace, announced: Pairs) -> Observation:
    strange = [i for i, _ in announced if i not in REGISTERED]
    names: tuple[Value, ...] = tuple(dict.fromkeys(GREASE if _is_grease(i) else i for i in strange))
    method = "identifiers unknown to IANA in SETTINGS"
    details: dict[str, Value] = {"identifiers": tuple(strange)} if strange else {}
    return yes("h2_reserved", names or ABSENT, trace, "", method, "C", _frames(trace), details)


def _increment(frames: Sequence[Http2Frame]) -> int | None:
    for frame in frames:
        if frame.kind == WINDOW_UPDATE and frame.stream == 0 and len(frame.body) == 4:
            return int.from_bytes(frame.body, "big") & 0x7FFFFFFF
    return None


def _window_update(trace: Trace, frames: Sequence[Http2Frame]) -> Observation:
    knob, unit = "h2_window_update", "bytes"
    increment = _increment(frames)
    if increment is not None:
        return yes(knob, increment, trace, unit, "WINDOW_UPDATE on stream 0", "C", _frames(trace))
    # It belongs to the preface: a server that has gone on to answer us has not sent one.
    if any(frame.kind != SETTINGS or frame.flags & ACK for frame in frames[1:]):
        return yes(knob, ABSENT, trace, unit, "none on stream 0", "C", _frames(trace))
    return no(knob, ended(trace), trace, unit)


def _later(trace: Trace, frames: Sequence[Http2Frame]) -> Observation:
    later = tuple(tuple(settings_of(f.body)) for f in frames[1:] if f.kind == SETTINGS and not f.flags & ACK)
    if later:
        return yes("h2_later_settings", later, trace, "", "SETTINGS after the first", "C", _frames(trace))
    if any(frame.kind in (HEADERS, GOAWAY) for frame in frames):
        return yes("h2_later_settings", ABSENT, trace, "", "none before the answer", "C", _frames(trace))
    return no("h2_later_settings", ended(trace), trace)


def _goaway(trace: Trace, frames: Sequence[Http2Frame]) -> Observation:
    for at, frame in enumerate(frames):
        if frame.kind != GOAWAY or len(frame.body) < 8:
            continue
        code = int.from_bytes(frame.body[4:8], "big")
        details: dict[str, Value] = {"code": code, "last_stream": int.from_bytes(frame.body[:4], "big") & 0x7FFFFFFF}
        details["when"] = "first" if at == 0 else "answered" if _has_head(frames[:at]) else "unanswered"
        if words := frame.body[8 : 8 + DEBUG_LIMIT_BYTES]:
            details["debug"] = words.decode("ascii", "replace")
        name = ERRORS[code] if code < len(ERRORS) else str(code)
        return yes("h2_goaway", name, trace, "", "GOAWAY", "C", _frames(trace), details)
    if _has_head(frames):
        return yes("h2_goaway", ABSENT, trace, "", "none before the answer", "C", _frames(trace))
    return no("h2_goaway", ended(trace), trace)


def _has_head(frames: Sequence[Http2Frame]) -> bool:
    return any(frame.kind == HEADERS for frame in frames)


def _each(trace: Trace, announced: Pairs) -> list[Observation]:
    """One observation per parameter; the last of duplicates counts (RFC 9113 6.5.3)."""
    values = dict(announced)
    found = []
    for identifier, (knob, default) in PARAMETERS.items():
        if identifier in values:
            value = values[identifier]
            details: dict[str, Value] = {"invalid": True} if value not in ALLOWED.get(identifier, (value,)) else {}
            found.append(yes(knob, value, trace, "", "announced in SETTINGS", "C", _frames(trace), details))
        else:
            found.append(yes(knob, ABSENT, trace, "", "not in SETTINGS", "C", _frames(trace), {"effective": default}))
    return found


def _none(trace: Trace, reason: str) -> tuple[Observation, ...]:
    knobs = KNOBS if trace.param("ask", True) else KNOBS[: -len(ASKED)]
    return tuple(no(knob, reason or "closed", trace) for knob in knobs)


def _frames(trace: Trace) -> tuple[int, ...]:
    """Return the frames that carried the server's stream."""
    return tuple(p.frame for p in trace.packets if p.way == "in" and p.segment.length > 0)[:4]


def across(trials: Mapping[str, Sequence[Observation]]) -> Observation | None:
    """One list, where only its GREASE differs between connections; None wherever the ordinary rule holds."""
    exact = [t for t in trials.get("h2_settings", ()) if t.value is not None]
    if len({t.value for t in exact}) < 2 or len({t.detail("effective", t.value) for t in exact}) > 1:
        return None
    return settled(trials["h2_settings"], exact[0], count_grade(len(exact)), {"grease_varies": True})
