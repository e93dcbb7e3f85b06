# SPDX-License-Identifier: MIT
"""Page loads of visitors as rows: `root_reader` joins log lines with records, `page_outcomes` beacons with those.

The two halves may be two processes: from the first to the second go `ReaderBatch`es, which hold no address and no port.
`local_outcomes.py` runs both in one.
"""
