# SPDX-License-Identifier: MIT
"""What people see: tables, lines for programs, progress, scores. Handed results; opens no socket and no database."""
