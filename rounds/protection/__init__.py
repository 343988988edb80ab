"""Protection of checkpoints in memory: who keeps whose copy, and what that survives."""
