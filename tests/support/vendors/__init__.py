"""Vendors on loopback: servers that speak each API's wire format, and ways to ask them."""
