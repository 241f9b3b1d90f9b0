"""Reads user files: city.toml, packs, agent directories, skills, packs.lock."""
