"""The charts of learning curves, evaluations, throughput and the learner."""
