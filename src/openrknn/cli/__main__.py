"""Where the program starts: nothing is imported before Ctrl-C is handled."""

__all__ = ["start"]


def start() -> int:
    """Run `openrknn`, and return its exit code."""
    try:
        from openrknn.cli.main import main

        return main()
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    raise SystemExit(start())
