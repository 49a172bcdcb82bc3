"""The web page that the server brings: no other server is asked for anything.

    api         what the page asks for;   assets: the page itself;   report: a model in detail
"""
