"""Makes commands start fast: answer cache, entry points, lazy imports."""
