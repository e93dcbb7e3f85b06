# SPDX-License-Identifier: MIT
"""The simulated world a policy is tried in: a PLT-tensor, sessions, and the loop that calls the production policy."""
