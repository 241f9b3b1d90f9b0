"""The store: one contract for every adapter, and what is special to SQLite."""
