"""Writes agents in the formats of other programs that are not providers: one module per format."""
