"""Moves a city of the first layout, agents in tables, to folders; and reads packs of it."""
