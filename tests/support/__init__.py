"""Test code that more than one test uses."""
