"""The consumer's side: find apps, stay connected, see them all as one world."""
