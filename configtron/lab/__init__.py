# SPDX-License-Identifier: MIT
"""A world under our control: hosts in virtual time, and an internet of servers whose settings are known."""
