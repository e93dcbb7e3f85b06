# SPDX-License-Identifier: MIT
"""The driver `route`: profiles as metrics of routes."""
