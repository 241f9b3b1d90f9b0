"""Controller: starts, watches and stops the sessions that the queued work needs."""
