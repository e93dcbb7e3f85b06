# SPDX-License-Identifier: MIT
"""Every way to choose a configuration, one file each. To add one: a file here that ends in `ROWS`.

`registry.py` finds the files by listing this folder. A file defines the policy's division of clients (`cells`), its
expectation of their loads (`model`) and its table (`learn`); rows of one file differ in arguments alone.
"""
