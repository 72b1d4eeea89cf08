"""A ledger in PostgreSQL: many hosts, many tenants, one database."""
