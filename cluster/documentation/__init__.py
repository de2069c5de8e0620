"""The documentation site: the READMEs, pages generated from the program, and the API, built by MkDocs (`make docs`)."""
