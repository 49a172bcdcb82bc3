"""Published figures of boards, and what it takes to rebuild their networks."""
