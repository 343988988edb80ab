"""What a page shows beside its map and its jobs: tables, each from a round and its plans."""
