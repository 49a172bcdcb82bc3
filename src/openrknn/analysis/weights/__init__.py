"""The weights of a file as the network had them: who uses them, how they lie, and with which scales."""
