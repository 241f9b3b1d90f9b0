"""Reads and edits TOML. Edits preserve every other byte."""
