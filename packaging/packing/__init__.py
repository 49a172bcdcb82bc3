"""How openrknn's packages are made: sources, archives, wheels, and what is checked before a release."""
