# SPDX-License-Identifier: MIT
"""Probe runs: begin and resume them, read, compare and score their results.

from pathlib import Path
from configtron.service import campaign

done = campaign.run(campaign.ProbeOptions(words=("example.com",)), Path("runs.db"))
with campaign.open_runs(Path("runs.db")) as store:
    for record in campaign.records_of(store, store.run(done.number)):
        print(record.site, record.verdicts)
"""

from lazy_loader import attach_stub

# The public names are in `__init__.pyi`; each is imported at its first use.
__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
