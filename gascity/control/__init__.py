"""What keeps the right number of sessions at work."""
