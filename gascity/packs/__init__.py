"""Packs of repositories: fetched, pinned, and laid into the cache that all cities share."""
