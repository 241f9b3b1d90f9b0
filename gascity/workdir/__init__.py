"""Working directories: collect what agents need, plan the difference, write it, undo it."""
