"""What texts and messages weigh, in tokens. Pure."""
