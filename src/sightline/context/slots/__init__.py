"""Slots: who gets the tokens of a prompt; strategies, which decide what slots there are. Pure."""
