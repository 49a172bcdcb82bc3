"""What differs between two models, in words.

    for difference in analysis.diff(load("a.rknn"), load("b.rknn")):
        print(difference.section, difference)

models      the whole: versions, what a program sees, operators, memory, texts;  tensors: each of them
constants   weights and other constants: how many differ, and by how much
commands    register commands, task by task and field by field
"""
