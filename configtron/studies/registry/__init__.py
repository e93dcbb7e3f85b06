# SPDX-License-Identifier: MIT
"""Which studies there are, and how each kind is run."""
