"""What the learner keeps and writes: state, schedule, audit records and the memory estimate."""
