"""Compiled problem of policy `geo`: eligibility and read costs per region, and job classes."""
