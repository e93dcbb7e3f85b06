# SPDX-License-Identifier: MIT
"""The columns of every CSV that `report/` writes with a fixed head, in order; `docs/fingerprint.md` explains them.

Two heads are made of other tables: that of `fingerprint pcap` of a connection's columns (CONNECTION_COLUMNS of
`fingerprint/passive/summary.py`, joined in `connections.py`), that of `fingerprint live` and `socket` of a context's
fields (`contexts.py`).

Rules for this file: constants only; a name that is in use keeps its meaning and its place.
"""

# configtron probe run, show, export: a verdict.
PROBE_COLUMNS = (
    "host", "address", "port", "provider", "tag", "vantage", "region", "knob", "value", "unit", "grade", "reason",
)  # fmt: skip
# configtron fingerprint diversity: a parameter in a region, or a difference.
DIVERSITY_COLUMNS = (
    "knob", "unit", "baseline", "region", "known", "values", "compared", "same", "differs", "undetermined", "mixed",
    "share", "low", "high", "example", "here", "there",
)  # fmt: skip
# configtron learn measure: a cell of the tensor.
CELL_COLUMNS = (
    "condition", "configuration", "site", "median_ms", "low_ms", "high_ms", "loads", "flag", "settings", "read_back",
    "provenance",
)  # fmt: skip
# configtron replay packets: a difference.
REPLAY_COLUMNS = ("file", "trace", "probe", "status", "name", "recorded", "replayed")
# configtron replay study: a claim of a paper.
CLAIM_COLUMNS = ("claim", "paper", "ours", "verdict", "words")
