"""User code: find it, load it, and run it within limits."""
