# SPDX-License-Identifier: MIT
"""Capture files -> frames: from a disk or through a pipe, of any program that recorded them.

Rules for this folder: an edge (files, processes); one buffer at a time, so memory does not grow with a file; a file
that breaks in the midst is read as far as it goes, and how it broke is counted.
"""
