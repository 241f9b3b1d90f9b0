"""Providers (agent CLIs): one TOML file each, and the code that finds and queries them."""
