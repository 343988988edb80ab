"""A converter for each published trace."""
