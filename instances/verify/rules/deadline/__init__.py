"""Rules about promises and leases."""
