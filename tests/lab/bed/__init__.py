"""Tests of lab/bed."""
