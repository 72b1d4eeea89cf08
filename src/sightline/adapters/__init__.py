"""The ways into an agent that is there already: live state and tools for any loop."""
