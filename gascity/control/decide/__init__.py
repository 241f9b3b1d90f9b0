"""Pure decisions of the controller: no clock, no processes, no files."""
