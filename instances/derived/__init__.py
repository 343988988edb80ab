"""Data derived from documents: arrays, hardware, demand, cell trees, lease arithmetic."""
