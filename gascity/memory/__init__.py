"""What agents remember: their notes, and the starter knowledge that new agents get."""
