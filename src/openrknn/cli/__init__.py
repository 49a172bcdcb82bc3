"""The command line: one file per command.

A command is a module in this package, named in `commands.NAMES`, with

    NAME = "inspect"
    HELP = "one line for `openrknn --help`"
    EXAMPLES = ("openrknn inspect model.rknn",)         # optional, shown by `openrknn inspect --help`
    def add_arguments(parser: argparse.ArgumentParser) -> None: ...
    def run(arguments: argparse.Namespace, output: Output) -> int: ...

It is imported when it is needed, and imports heavy things (numpy, rich, ...) inside `run`, so that the command line
starts fast. `run` returns the exit code: 0 well, 1 done and something is wrong with the model, 2 could not be done.
"""
