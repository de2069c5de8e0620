"""The learner's passes, state, learning-rate schedule, audit records and memory estimate."""
