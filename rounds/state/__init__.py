"""State between rounds: applying plans and changes, and what an engine keeps."""
