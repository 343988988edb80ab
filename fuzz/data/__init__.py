"""Regions, links and data, as the policies `geo` and `replicas` both know them."""
