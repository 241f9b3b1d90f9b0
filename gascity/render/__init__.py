"""Renders prompts, command lines and tool flags for a provider, and parses run output. Pure."""
