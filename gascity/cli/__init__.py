"""Commands: parse options, make one call, print."""
