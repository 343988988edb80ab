"""Which jobs share GPUs: set packing over groups, with proven bounds."""
