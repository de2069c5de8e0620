"""Word problems: made ones and GSM8K, the prompts of their instruction variants, answers, rewards and scores."""
