# SPDX-License-Identifier: MIT
"""Learning: outcomes imported, policies taken through them, valued, explained, and exported as rules.

from pathlib import Path
from configtron.service import learning

db = Path("outcomes.db")
with open("outcomes.jsonl", "rb") as file:
    learning.import_file(file, "outcomes.jsonl", learning.ImportOptions(db))
print(learning.run(learning.LearnOptions(db)).learned)
print(learning.export(learning.ExportOptions(db)).made.losses)
"""

from lazy_loader import attach_stub

# The public names are in `__init__.pyi`; each is imported at its first use.
__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
