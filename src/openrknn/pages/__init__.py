"""Every HTML page that openrknn writes, on one markup kit.

markup       elements and escaping: what comes from a file is text and stays text
frame        the document around them: head, style, script, content security policy
model        of `openrknn inspect --html` and of the server;  compiled: of `compile --report`
parted       the same of a model in parts, and of `compare --html`
compare      of `openrknn compare --html`;  timeline: of `trace timeline`;  demo: of `demo`
findings     of `openrknn lint --report`;  checked: of `openrknn check --report`

A page is drawn from values that others computed (`openrknn.analysis`, the compiler, a trace); it computes nothing.
"""
