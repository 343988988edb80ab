"""The fast path: which region runs which job, and then on which hosts."""
