# SPDX-License-Identifier: MIT
"""Programs of the tests of tune that run in namespaces or guests of their own, and two hosts to run them on."""
