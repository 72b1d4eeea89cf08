"""Slash commands: one registry, run alike in the terminal, in a pipe and in tests."""
