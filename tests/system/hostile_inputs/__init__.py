"""A share of the fuzzer's cases, against the real commands and servers."""
