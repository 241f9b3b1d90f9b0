"""One module per page: reads what it shows and returns it as a `Page`."""
