"""Records and rules without I/O: settings, layers, names, problems, city, providers, work."""
