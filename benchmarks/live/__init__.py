# SPDX-License-Identifier: MIT
"""The closed loop alive: servers, clients of six continents, a manager that learns, and who judges it."""
