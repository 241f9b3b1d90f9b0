"""Where work, sessions, mail and events are kept."""
