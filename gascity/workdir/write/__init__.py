"""Disk effects: writing, restoring and backing up files, and the ledger and journal of them."""

BACKUPS = ".gc/backup"  # originals replaced by multi-file transactions
UNFINISHED = f"{BACKUPS}/unfinished.json"  # exists only while a transaction is running
