"""Memory of agents: their notes, and the starter knowledge that new agents get."""
