"""Files of word problems: GSM8K, and rows of prompt, answer, role and task."""
