"""Programs as they are written for the vendor's wheel. They know nothing of openrknn."""
