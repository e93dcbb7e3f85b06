# SPDX-License-Identifier: MIT
"""Every way to choose a configuration, one file each. To add one: a file here that ends in `ROWS`.

`registry.py` finds the files by listing this folder. A file says which clients its policy treats alike (`cells`), what
it expects of them (`model`) and how it makes a table (`learn`); rows of one file differ in arguments alone.
"""
