"""From agents to their working directories: what should be there, and making it so."""
