"""The SLOP protocol as values: trees, paths, patches, views and their canonical text. Pure."""
