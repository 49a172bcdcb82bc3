"""What `siege.py` and `drain.py` share: a cage of memory, a server inside it, good clients and bad ones."""
