"""Numbers, names and tables as text, and the streams that they go to."""
