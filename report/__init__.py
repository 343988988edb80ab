"""The report: one self-contained page about a round and its plan, without a request to anywhere."""
