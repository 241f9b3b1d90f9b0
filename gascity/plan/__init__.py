"""Deciding what to write: no clock, no processes, no files."""
