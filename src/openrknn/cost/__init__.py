"""The latency estimate of a model on a board; the only one in the project.

`work` counts what a task gives each part of the NPU to do, `boards` says how fast those parts are, `time` makes time of
the two, `model` adds up operators and models. `decoded` finds the sizes of tasks in any file's commands; the compiler
knows them before it writes any.
"""

from openrknn.cost.boards import BOARDS, Board, board_of
from openrknn.cost.model import Cost, OperatorCost, operator_cost
from openrknn.cost.time import Bound, Spent, spent_by, total
from openrknn.cost.work import Kind, Shape, Work, work_of

__all__ = [
    "BOARDS",
    "Board",
    "Bound",
    "Cost",
    "Kind",
    "OperatorCost",
    "Shape",
    "Spent",
    "Work",
    "board_of",
    "operator_cost",
    "spent_by",
    "total",
    "work_of",
]
