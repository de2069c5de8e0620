"""Top-level packages, by whose names ``verifiers`` finds environments; setup installs them as such."""
