"""Completion: the scripts of the shells ask `openrknn completion --line LINE` what can follow.

complete    the line as the parser sees it;   values: by option, argument and metavar, what can stand there
candidates  values that depend on the machine or the line;   scripts: what the shells run
"""
