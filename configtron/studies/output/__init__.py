# SPDX-License-Identifier: MIT
"""What studies return, as text, JSON Lines, CSV and one page."""
