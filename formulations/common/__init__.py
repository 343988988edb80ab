"""What several formulations need."""
