"""Readers of other tools' agent files: each turns the files of a source into agents of a city."""
