"""Parts of `benchmarks/compiler_acceptance.py`.

    data       pictures, pages, lines of text and sounds: some to calibrate with, others to judge by
    cases      what is compiled, from which file, with which data
    toolkit    the vendor's build of a case on the same data
    measure    one case: compiled, run on the software NPU and on the vendor's runtime, compared with float
    answers    what a user sees: classes, boxes, lines of text, letters, scores
    table      Markdown and HTML
    fetch      gets the packages with the trained networks and the pictures
"""
