"""What was said, in no vendor's format, and which of it a prompt says again. Pure."""
