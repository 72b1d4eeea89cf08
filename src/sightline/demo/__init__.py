"""A small realistic app state, used by the README, the tests and the chat."""
