"""Packs from git repositories: resolve, fetch, pin and install into the shared cache."""
