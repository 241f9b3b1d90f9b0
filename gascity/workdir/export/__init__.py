"""Exports agents as files of other tools: which files, and how they are written and owned."""
