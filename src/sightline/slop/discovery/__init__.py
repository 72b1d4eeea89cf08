"""Where apps say that they are there: one small file each, in directories that are checked."""
