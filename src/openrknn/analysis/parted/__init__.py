"""Models in parts: what is in each (`report`), what to feed (`feed`), and which part loses accuracy (`borders`)."""
