"""The vendor's `rknn` API on openrknn, as far as it runs models. Converting them is not in it yet."""
