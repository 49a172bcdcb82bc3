"""A model in the vendor's library: loading it, asking it, feeding it, running it."""
