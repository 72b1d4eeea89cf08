"""Models: the shells around vendors' APIs and local runtimes, all with one face (`base`)."""
