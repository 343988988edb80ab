"""Explanations of jobs that wait, beside the enumeration of tiny rounds by the rule book."""
