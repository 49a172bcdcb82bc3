"""What is made of the wheels and proved with them: clean roots, the Debian package, the container image."""
