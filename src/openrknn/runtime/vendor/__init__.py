"""Sessions on the vendor's library."""
