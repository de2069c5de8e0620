"""What the audit records say of groups, returns and advantages."""
