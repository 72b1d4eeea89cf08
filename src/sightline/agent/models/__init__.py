"""Models: the shells around vendors' SDKs and local runtimes, all with one face (`base`)."""
