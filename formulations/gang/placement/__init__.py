"""A plan under construction, and what every plan passes through."""
