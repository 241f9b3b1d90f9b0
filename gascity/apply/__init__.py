"""The disk effects: files written, put back and kept, and the books that are kept of them."""

BACKUPS = ".gc/backup"  # what changes of a city's own files replaced
UNFINISHED = f"{BACKUPS}/unfinished.json"  # there only while such a change is under way
