"""What a peer can be held to from outside: every clause in words, and a trial for each. Pure."""
