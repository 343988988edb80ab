"""The documents Cluster, Round and Plan, and their sections, as pydantic models."""
