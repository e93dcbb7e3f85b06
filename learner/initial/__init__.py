# SPDX-License-Identifier: MIT
"""Initial windows from the end states of earlier connections: Applied Learning Networks, and what is judged of it."""
