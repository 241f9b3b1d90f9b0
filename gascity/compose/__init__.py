"""Combines sources into a city: places agents, stacks layers, applies patches. Pure."""
