"""The gateway: between any agent and its vendor; every request seen, kept and explained."""
