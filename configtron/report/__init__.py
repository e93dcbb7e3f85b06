# SPDX-License-Identifier: MIT
"""Output: tables, lines for programs, progress, scores. It gets results; it opens no socket and no database."""
