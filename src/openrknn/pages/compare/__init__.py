"""The page of `openrknn compare --html`: plots of noise and steps, and a table of all tensors."""
