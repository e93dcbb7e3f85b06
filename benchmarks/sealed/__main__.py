# SPDX-License-Identifier: MIT
"""`python -m benchmarks.sealed`: `suite.py`, whose processes begin anew and must find its functions under a name."""

import sys

from benchmarks.sealed.suite import main

if __name__ == "__main__":
    sys.exit(main())
