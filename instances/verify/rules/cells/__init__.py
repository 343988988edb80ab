"""Rules about the cells that tenants own."""
