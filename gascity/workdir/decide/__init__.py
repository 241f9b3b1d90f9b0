"""Pure decisions about a working directory: no files, no processes, no clock."""
