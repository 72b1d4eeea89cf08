"""What of the apps' state a model is shown, and in which words; pure."""
