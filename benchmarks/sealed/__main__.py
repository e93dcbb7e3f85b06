# SPDX-License-Identifier: MIT
"""`python -m benchmarks.sealed` runs `suite.py`, whose spawned processes must be able to import its functions."""

import sys

from benchmarks.sealed.suite import main

if __name__ == "__main__":
    sys.exit(main())
