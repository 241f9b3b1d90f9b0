"""Configure, inspect and run coding agents from a directory tree."""

__version__ = "0.1.0"
