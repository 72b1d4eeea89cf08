"""The inspector: a local web page that shows exactly what the model saw.

It computes nothing about context itself. `reader` reads the ledger and the wire
journal and calls the same pure functions as the host; `server` hands the values to
the page as JSON; the page draws them.
"""
