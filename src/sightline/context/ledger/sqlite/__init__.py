"""The engine that keeps a ledger in one SQLite file."""
