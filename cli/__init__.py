"""The command line: each verb parses, calls the library and prints."""
