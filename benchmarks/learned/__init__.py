# SPDX-License-Identifier: MIT
"""From captures and an access log to rules in force, on the wire."""
