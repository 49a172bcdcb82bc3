"""Structure-aware fuzzing of execution; `tools/fuzz.py` is the command.

anatomy     where the commands, tasks, relocations, shapes and scales of a file are
mutate      a file with some of them changed
judge       a mutant through `Session.run`, with native kernels and with NumPy: one verdict
build       the native library with sanitizers and coverage
worker      a process that judges one mutant after the other
loading     files damaged byte by byte, only loaded
valid       tasks that the NPU may be given, in combinations that cover all pairs of values
tasks       workers, valid tasks, failures, statistics
campaign    workers, the corpus of parents, failures, statistics
"""
