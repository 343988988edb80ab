"""HiveD: its scheduler configuration as a cluster, and its virtual clusters as tenants."""
