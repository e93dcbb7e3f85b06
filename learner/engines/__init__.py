"""Engines that suggest the next configuration to try."""
