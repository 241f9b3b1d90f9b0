"""Reads and edits JSON with comments."""
