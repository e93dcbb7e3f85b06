# SPDX-License-Identifier: MIT
"""TLS versions: which of 1.0 to 1.3 a server agrees to.

Question   Which versions does the server speak, and not only which one does it prefer?
Method     One hello for each version as the highest on offer, made by hand with old and new ciphers; the ServerHello
           says which one the server takes. A hello that offers 1.1 at most, answered with 1.0, has asked about both.
Stop when  the ServerHello or a fatal alert is there; the handshake is not finished.
Reads as   the versions taken, oldest first. One trial shows the version chosen under one limit, the verdict joins them:
           a version is refused if a hello that offered it was answered with an older one, or with an alert. While some
           version is neither, those known are a lower bound.
Fails as   no-synack, refused, tls:not-tls, tls:alert-*, closed, reset, no-data. An alert but protocol_version, or
           a closed connection, is a refusal of the version only where another hello was answered.
Differs    from sslyze and testssl.sh: no finished handshake, so no cipher of ours is needed; from JA4S: versions, not
           one hash.
Source     RFC 8446 4.1.3, 4.2.1, 6; RFC 5246 7.4.1.3, appendix E.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from configtron.fingerprint.verdict import count_grade, ended, no, over, yes
from configtron.model.nouns import Observation, Trace, Value

PROBES = ("tls_versions",)
KNOBS = ("tls_versions",)
# On the wire -> as written, oldest first.
VERSIONS = {0x0301: "1.0", 0x0302: "1.1", 0x0303: "1.2", 0x0304: "1.3"}
NAMES = tuple(VERSIONS.values())
# RFC 8446 6, RFC 5246 7.2: alerts that a server may answer a hello with.
ALERTS = {
    0: "close-notify", 10: "unexpected-message", 22: "record-overflow", 40: "handshake-failure",
    47: "illegal-parameter", 49: "access-denied", 50: "decode-error", 70: "protocol-version",
    71: "insufficient-security", 80: "internal-error", 86: "inappropriate-fallback", 90: "user-canceled",
    109: "missing-extension", 110: "unsupported-extension", 112: "unrecognized-name", 120: "no-application-protocol",
}  # fmt: skip
# Record types (RFC 8446 5.1), a handshake message's type, the extension that names the version from 1.3 on.
ALERT, HANDSHAKE, SERVER_HELLO, SUPPORTED_VERSIONS = 21, 22, 2, 43
# An answer that names no version still is a no, and not a loss.
NO_LOSS = ("closed", "reset", "tls:alert-")
# The one alert that speaks of versions.
PROTOCOL_VERSION = 70


class HelloAnswer(NamedTuple):
    """The answer to a hello: a version, else an alert (-1: none), else it was no TLS; `final`: enough heard."""

    version: str = ""
    cipher: int = 0
    alert: int = -1
    tls: bool = True
    final: bool = False


def infer(trace: Trace) -> tuple[Observation, ...]:
    """Read one hello's answer: the version chosen, () for a refusal that names versions, or a reason."""
    if trace.session is not None and trace.session.error:
        return (no("tls_versions", trace.session.error, trace),)
    most = str(trace.param("most", NAMES[-1]))
    details: dict[str, Value] = {"most": most}
    answer = answer_of(b"".join(m.data for m in trace.messages if m.way == "in"))
    frames = tuple(p.frame for p in trace.packets if p.way == "in" and p.segment.length > 0)[:1]
    if not answer.tls:
        return (no("tls_versions", "tls:not-tls", trace, details=details),)
    if answer.version:
        details["cipher"] = f"0x{answer.cipher:04x}"
        return (yes("tls_versions", (answer.version,), trace, "", "ServerHello", "C", frames, details),)
    if answer.alert == PROTOCOL_VERSION:
        return (yes("tls_versions", (), trace, "", "alert protocol_version", "C", frames, details),)
    if answer.alert >= 0:
        name = ALERTS.get(answer.alert, str(answer.alert))
        return (no("tls_versions", f"tls:alert-{name}", trace, details=details),)
    return (no("tls_versions", ended(trace), trace, details=details),)


def answer_of(data: bytes) -> HelloAnswer:
    """Read a server's first records. Total: any bytes give an answer, `final` once more bytes would not change it."""
    handshake, alert, at = b"", -1, 0
    while at < len(data):
        kind, major = data[at], data[at + 1 : at + 2]
        if kind not in (ALERT, HANDSHAKE) or major not in (b"", b"\x03"):
            return HelloAnswer(tls=False, final=True)
        end = at + 5 + int.from_bytes(data[at + 3 : at + 5], "big")
        if at + 5 > len(data) or end > len(data):
            break
        body, at = data[at + 5 : end], end
        if kind == ALERT and len(body) == 2:
            alert = body[1]
            # A warning (1) may go before the ServerHello: "unrecognized_name" often does (RFC 6066 section 3).
            if body[0] != 1:
                return HelloAnswer(alert=alert, final=True)
        elif kind == HANDSHAKE:
            handshake += body
            if hello := _server_hello(handshake):
                return hello
    return HelloAnswer(alert=alert)


def _server_hello(data: bytes) -> HelloAnswer | None:
    """Return the version of a whole ServerHello; None while it is not whole."""
    size = int.from_bytes(data[1:4], "big")
    if len(data) < 4 or len(data) < 4 + size:
        return None
    body = data[4 : 4 + size]
    if data[0] != SERVER_HELLO or len(body) < 38:
        return HelloAnswer(tls=False, final=True)
    number, at = int.from_bytes(body[:2], "big"), 35 + body[34]
    cipher, at = int.from_bytes(body[at : at + 2], "big"), at + 5
    while at + 4 <= len(body):
        kind, length = int.from_bytes(body[at : at + 2], "big"), int.from_bytes(body[at + 2 : at + 4], "big")
        if kind == SUPPORTED_VERSIONS and length == 2:
            number = int.from_bytes(body[at + 4 : at + 6], "big")
        at += 4 + length
    return HelloAnswer(VERSIONS.get(number, f"0x{number:04x}"), cipher, final=True)


def across(trials: Mapping[str, Sequence[Observation]]) -> Observation | None:
    """Join all limits: the versions taken, those refused, and those still open (then a lower bound).

    None without a ServerHello or a refusal: the trials' reason stands.
    """
    mine = trials.get("tls_versions", ())
    if not any(t.value is not None for t in mine):
        return None
    taken, refused = _counts(mine)
    known = tuple(v for v in NAMES if taken[v])
    details: dict[str, Value] = {"refused": tuple(v for v in NAMES if refused[v] and not taken[v])}
    grade = count_grade(min(max(taken[v], refused[v]) for v in NAMES))
    if torn := tuple(v for v in known if refused[v]):
        # Unlike servers behind one address, or one that was changed meanwhile.
        grade, details["torn"] = "C", torn
    if still_open := tuple(v for v in NAMES if not taken[v] and not refused[v]):
        grade, details["open"] = "L", still_open
        if not known:
            # Where old versions are refused by name, that says why no newer one is known.
            reasons = [t.reason for t in mine if t.reason is not None] or ["tls:version"]
            reason = Counter(reasons).most_common(1)[0][0]
            return over("tls_versions", mine, None, "N", reason=reason, details=details)
    return over("tls_versions", mine, known, grade, "", "ServerHellos under falling limits", details=details)


def _counts(trials: Sequence[Observation]) -> tuple[Mapping[str, int], Mapping[str, int]]:
    """Return how often each version was taken, and how often it was on offer and passed over."""
    taken, refused = dict.fromkeys(NAMES, 0), dict.fromkeys(NAMES, 0)
    answered = any(t.value for t in trials)
    for trial in trials:
        most = str(trial.detail("most", ""))
        if most not in NAMES:
            continue
        if trial.value:
            chosen = str(trial.value[0]) if isinstance(trial.value, tuple) else ""
            if chosen in taken:
                taken[chosen] += 1
        elif trial.value == () or (answered and (trial.reason or "").startswith(NO_LOSS)):
            chosen = ""
        else:
            continue
        for version in NAMES[: NAMES.index(most) + 1]:
            # Names of versions sort as the versions do.
            refused[version] += version > chosen
    return taken, refused
