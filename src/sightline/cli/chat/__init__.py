"""The chat: a terminal, a pipe, and what both of them show."""
