# SPDX-License-Identifier: MIT
"""What each verb does, callable from Python: frozen options in, results and progress events out.

Layer 4. It imports every edge. It does not import click or rich, does not print, and does not read `sys.argv`: the
command line parses, calls one function of this package, and renders what it returns.
"""
