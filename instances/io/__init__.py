"""Reading and writing documents: files, YAML and JSON, errors, schemas, digests."""
