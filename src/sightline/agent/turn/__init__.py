"""From what the user said to the answer: a pure machine."""
