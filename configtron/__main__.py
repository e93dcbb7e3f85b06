# SPDX-License-Identifier: MIT
"""`python -m configtron`."""

from configtron.cli import main

main()
