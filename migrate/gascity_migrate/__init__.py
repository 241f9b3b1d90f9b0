"""Converts v1 cities (agents in TOML tables) to agent directories, and reads v1 packs."""
