"""What differs between two models, in words.

    for difference in compare(load("a.rknn"), load("b.rknn")):
        print(difference.section, difference)

compare.models      the whole: versions, what a program sees, tensors, operators, memory, texts
compare.constants   weights and other constants: how many differ, and by how much
compare.commands    register commands, task by task and field by field
"""
