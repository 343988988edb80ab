"""Integer programs of data and homes, and their linear relaxation."""
