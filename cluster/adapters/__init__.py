"""Our worlds and episodes in the hands of other packages: TRL, verifiers, OpenEnv."""
