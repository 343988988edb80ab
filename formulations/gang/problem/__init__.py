"""A round as arrays: what is to be decided, on what; imports nothing else of the formulation."""
