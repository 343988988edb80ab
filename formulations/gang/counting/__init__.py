"""Models that count jobs and tasks per class, and what relaxes and searches them."""
