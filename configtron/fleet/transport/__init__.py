# SPDX-License-Identifier: MIT
"""ZeroMQ sockets with CURVE, keys on disk, and the socketpair to the process that applies."""
