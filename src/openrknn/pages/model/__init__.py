"""The page that `openrknn inspect --html` writes.

layout, layers, columns     a graph drawing, from nodes and edges
graph, memory               pictures (SVG)
overview, charts, tables    what is written and counted
page                        all of it as one file
"""
