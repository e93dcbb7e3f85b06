# SPDX-License-Identifier: MIT
"""Congestion controls of user space: pure classes, one a file, and the table of them (`table.py`).

Layer 1: no file here opens a socket or reads a clock, and random numbers come in as a generator. `sending.py` asks a
scheme when the next packet may leave. The testbed sends that packet through a socket (`lab/testbed/datagrams.py`), a
unit test over a scripted path (`tests/support/scripted_path.py`).
"""
