# SPDX-License-Identifier: MIT
"""Reasons: why a beacon, a log line or a report is no outcome, and why an outcome does not teach (is not learned).

Rules for this file: each name is counted under itself (`Counter`), never merged with another.
CONTRADICTIONS are the reasons by which a client's own connection disproves its beacon: a client or a prefix with too
many of them is quarantined.
"""

from __future__ import annotations

from configtron.model.fleet import NOT_HERE

# Beacons, by their own content.
BEACONS = {
    "unreadable": "neither our beacon nor boomerang's nor web-vitals', or a field of the wrong kind",
    "other-metric": "a metric of web-vitals other than the one that is collected",
    "opted-out": "the browser sends Sec-GPC or DNT, and the endpoint honours them",
    "test-beacon": "sent by `configtron doctor`",
    "program": "the User-Agent is of a program (bot), not of a browser",
    "prerender": "the page was rendered before the visitor asked for it",
    "hidden": "the page was in the background before it had loaded",
    "discarded": "the browser had discarded the tab and restored it",
    "bfcache": "the page came from the back/forward cache or by back/forward navigation",
    "clock": "a time is negative, not finite, or earlier than the time before it",
    "too-long": "longer than 10 minutes",
    "no-load-end": "the load event has no end, and the visitor did not leave either",
}
# Beacons, by their token and connection.
JOINS = {
    "no-token": "no Server-Timing token in it",
    "forged-token": "not of the form that the server issues, or its signature is wrong",
    "unknown-token": "no log line with this token came in time",
    "expired-token": "the token is older than the longest page load",
    "used-token": "another page load was reported with this token: a replay, or a page from the browser's cache",
    "changed-body": "the same page load was reported again with other times",
    "impossible-fast": "faster than the round trips of its own connection",
    "impossible-slow": "longer than the time between request and beacon by the server's clock",
    "too-often": "a second page load of one connection within 200 ms",
    "overflow": "too many beacons wait for their log line",
}
# Requests at the endpoint.
FLOODS = {
    "flood-address": "more beacons than one address may send",
    "flood-prefix": "more beacons than one prefix may send",
    "flood-total": "more beacons than the endpoint takes in a second",
    "too-large": "a body longer than the endpoint reads",
    "not-http": "no HTTP/1 request that the endpoint understands",
}
# Lines of access logs.
LINES = {
    "line-test": "sent by `configtron doctor`",
    "line-unreadable": "not in the format of any of the three servers",
    "line-without-token": "the server logged no token",
    "line-clock": "the line's time is not near its arrival: the clock was stepped, or the line was held back",
    "line-proxied": "the client's port is 0: there is a proxy in front of this server",
    "no-record": "the records have no such connection open at that time",
    "ambiguous-record": "the 4-tuple was reused within a second: the line may be of either connection",
    "records-lost": "the kernel lost records since this connection began",
    "other-connection": "the server's connection number differs from that of the last line of this record",
    "lines-overflow": "too many lines wait for their record",
    "repeated-line": "an earlier line had the same token",
}
# Network Error Logging.
REPORTS = {
    "report-unreadable": "not a Network Error Logging report",
    "report-rare": "its sampling fraction is so small that its weight would exceed all others",
    "report-old": "older than an hour",
    "report-success": "a load that succeeded: beacons report those",
    "report-server": "an error of the application (status, redirects), which no transport setting causes",
    "report-unknown-client": "what this client was given is not known",
    "report-overflow": "too many reports in one body, or waiting for the process that knows what clients were given",
    "report-unanswered": "that process did not answer in time, or the agent ended before it did",
    "late-answer": "an answer whose report does not wait any more: it was counted as `report-unanswered`",
}
# Outcomes that are stored and do not teach (`OutcomeRow.why_not`).
UNTAUGHT = {
    "turn": "the connection began within 3 s of a change of epoch",
    "reused-connection": "not the first page of its connection: the initial window was spent by another",
    "unknown-reuse": "the log does not show whether it was the first request of its connection",
    "unverified-time": "too much of the load time was before its connection began, where no record confirms it",
    "client-cap": "as many loads of this client count already as may in an epoch",
    "prefix-cap": "as many loads of this prefix count already as may in an epoch",
    "quarantined": "beacons of this client or prefix contradict the kernel's records",
    "uncorroborated": "the records have no connection of this client near the time of the failure",
    "not-by-transport": "the load failed before a connection was tried",
    "undrawn": "the client's profile is not known",
    "window-cut": "the kernel reduced the initial window after retransmitted SYN-ACKs: not the profile's window",
    "dated-ahead": "its date or its epoch is more than a minute ahead of the manager's clock",
    "moved": "the connection's profile was changed while it was open",
    NOT_HERE: "its client was assigned a profile that this agent's driver lacks: it had the untouched stack",
}
# What else is counted: what came, and what went well.
PROGRESS = {
    "beacons": "beacons that were read; each has a result: `accepted`, `again`, or a reason of the two tables below",
    "accepted": "a page load that became a row",
    "again": "another beacon of a load: the script sends one at the load event, and one when the visitor leaves",
    "waiting": "no result yet: the log line has not come, or the ten seconds are not over",
    "reports": "failed loads that browsers reported (Network Error Logging)",
    "joined": "log lines whose connection is known",
    "records lost": "connections whose records the kernel dropped, or whose end it did not report",
    "batches dropped": "an agent's process without rights read too slowly, and the oldest joined lines were dropped",
}
ALL = {**BEACONS, **JOINS, **FLOODS, **LINES, **REPORTS, **UNTAUGHT}
# Disproved by the client's own connection or token.
CONTRADICTIONS = frozenset(("used-token", "changed-body", "impossible-fast", "impossible-slow", "too-often"))
