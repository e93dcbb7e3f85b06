# SPDX-License-Identifier: MIT
"""Claims and the commands that show them: one file a claim."""
