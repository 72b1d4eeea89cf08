"""How messages travel: in memory, over streams, over WebSockets. Shells, all alike: see `link`."""
