"""Our worlds as environments of ``verifiers``: Diplomacy with seven seats, and word problems."""
