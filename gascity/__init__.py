"""Your agents are folders: read a city, say what every agent sees and why."""

__version__ = "0.1.0"
