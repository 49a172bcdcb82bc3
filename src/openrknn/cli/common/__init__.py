"""What commands share.

    output      where words go: text, JSON or next to nothing;   tables: the one style of tables and bars
    options     options of several commands, and the session that they open
    files       models in, files out, with one clear line when it does not work;   folder: a folder that is filled
    progress    a bar for work in stages
    inputs      --input: arrays and pictures for a model;   labels: names of classes
    disassembly register commands as text, words and JSON
"""
