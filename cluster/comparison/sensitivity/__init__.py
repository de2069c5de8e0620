"""How much a method's result depends on its settings: trials over their ranges, and what these say."""
