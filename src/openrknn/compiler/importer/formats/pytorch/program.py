"""The graph of a `.pt2` as JSON: checked, because PyTorch evaluates parts of it as Python.

Sizes are expressions that SymPy evaluates, names become source code of a module, operators are looked up by attribute,
and types of containers are imported. Each of these is held against a list of what torch.export writes; guards, which
are Python code for the check of inputs, are left out.
"""

from __future__ import annotations

import ast
import json
import re
from typing import Any

from openrknn.compiler.errors import ModelError

_DEEPEST = 200
_NAME = re.compile(r"[A-Za-z0-9_.\-]*")
_WORD = re.compile(r"[^()\[\]{}'\"=\\;`\n\r]*")
_FREE_TEXT = {"as_string", "as_strings", "note"}
"""Arguments of operators, which are quoted where they become code (einsum's equation), and notes on nodes."""
_KEPT_METADATA = {"nn_module_stack", "torch_fn"}
_OPERATOR = re.compile(
    r"torch\.ops\.(aten|prims|prim|torchvision|quantized_decomposed|_operator)\."
    r"(?!from_file\b)(?!_?load|_?save)([A-Za-z_]\w*)(\.[A-Za-z]\w*)?"
    r"|torch\.ops\.higher_order\.(cond|while_loop|scan|map_impl|wrap_with_set_grad_enabled|wrap_with_autocast)"
    r"|torch\.(sym_max|sym_min|sym_float|sym_int|sym_not|sym_ite|sym_sum|_sym_sqrt)"
    r"|math\.(trunc|floor|ceil|sqrt|pow|prod|log2)"
    r"|_operator\.(add|sub|mul|truediv|floordiv|mod|pow|neg|pos|eq|ne|lt|le|gt|ge|and_|or_|not_|getitem|lshift|rshift)"
)
_DUNDER = re.compile(r"__(i?(and|or|xor|lshift|rshift))__")
_CALLS = {
    "Symbol", "Integer", "Float", "Rational", "Add", "Mul", "Pow", "Mod", "Max", "Min", "Abs", "Eq", "Ne", "Lt", "Le",
    "Gt", "Ge", "Not", "And", "Or", "Piecewise", "ceiling", "floor", "CeilDiv", "CeilToInt", "FloorDiv", "FloorToInt",
    "IntTrueDiv", "FloatTrueDiv", "ModularIndexing", "PythonMod", "PowByNatural", "FloatPow", "Identity", "ToFloat",
    "TruncToInt", "TruncToFloat", "Where", "RoundToInt", "RoundDecimal", "CleanDiv", "LShift", "RShift",
    "IsNonOverlappingAndDenseIndicator", "OpaqueUnaryFn_sqrt",
    "Equality", "Unequality", "StrictLessThan", "LessThan", "StrictGreaterThan", "GreaterThan",
    "BitwiseFn_bitwise_and", "BitwiseFn_bitwise_or", "BitwiseFn_bitwise_xor", "sqrt", "log", "true", "false",
}  # fmt: skip
_EXPRESSION = (
    ast.Expression, ast.Call, ast.Name, ast.Constant, ast.BinOp, ast.UnaryOp, ast.Compare, ast.BoolOp, ast.keyword,
    ast.Tuple, ast.operator, ast.unaryop, ast.cmpop, ast.boolop, ast.Load,
)  # fmt: skip
_MOST_EXPRESSION, _MOST_DIGITS = 10_000, 10**30
_CONTAINERS = {
    None, "builtins.tuple", "builtins.list", "builtins.dict", "collections.OrderedDict", "collections.namedtuple",
}  # fmt: skip


def checked_program(data: bytes, name: str) -> bytes:
    """The program without what would be run as Python; an error for what cannot be left out."""
    program = _parsed(data, name)
    if not isinstance(program, dict) or not isinstance(program.get("graph_module"), dict):
        raise ModelError(f"{name} is damaged: its program has no graph; export the model again")
    if "guards_code" in program:
        program["guards_code"] = []
    _walk(program, "", name, 0)
    return json.dumps(program).encode()


def checked_payloads(data: bytes, name: str, pattern: re.Pattern[str]) -> tuple[bytes, dict[str, bool]]:
    """The list of weights or constants, and the members that it names -> whether they are pickled."""
    listed = _parsed(data, name)
    found: dict[str, bool] = {}
    try:
        for weight, entry in listed["config"].items():
            path, is_pickled = entry["path_name"], entry.get("use_pickle", True)
            if not isinstance(path, str) or not pattern.fullmatch(path) or not isinstance(is_pickled, bool):
                raise ModelError(
                    f"{name}: {weight[:80]!r} is stored as {str(path)[:80]!r}, which is not a tensor; loading it could "
                    "run any code. Export the model again, with tensors only"
                )
            found[path] = is_pickled or found.get(path, False)
        _walk(listed, "", name, 0)
    except (KeyError, AttributeError, TypeError):
        raise ModelError(f"{name} has a list of weights that is damaged; export it again") from None
    return json.dumps(listed).encode(), found


def _parsed(data: bytes, name: str) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        raise ModelError(f"{name} is damaged: a description in it is not JSON") from None


def _walk(value: Any, key: str, name: str, depth: int) -> None:
    if depth > _DEEPEST:
        raise ModelError(f"{name}: its program is nested more than {_DEEPEST} deep; export the model again")
    if isinstance(value, dict):
        for one in [*value]:
            if key == "metadata" and one not in _KEPT_METADATA:
                del value[one]
                continue
            _text(one, "key", name)
            _walk(value[one], "note" if key == "metadata" else one, name, depth + 1)
    elif isinstance(value, list):
        for entry in value:
            _walk(entry, key, name, depth + 1)
    elif isinstance(value, str):
        _text(value, key, name)


def _text(value: str, key: str, name: str) -> None:
    if key == "expr_str":
        _check_expression(value, name)
    elif key in {"in_spec", "out_spec"}:
        _check_containers(_parsed(value.encode("utf-8", "replace"), name) if value else None, name, 0)
    elif key in {"target", "as_operator"}:
        found = _OPERATOR.fullmatch(value)
        if found is None or (any("__" in part for part in value.split(".")) and not _is_dunder_operator(value)):
            raise _refusal(name, f"the operator {value[:80]!r}")
    elif key in {"name", "as_name"} and not _NAME.fullmatch(value):
        raise _refusal(name, f"the name {value[:80]!r}")
    elif key not in _FREE_TEXT and not _WORD.fullmatch(value):
        raise _refusal(name, f"{value[:80]!r}")


def _is_dunder_operator(value: str) -> bool:
    parts = [part for part in value.split(".") if "__" in part]
    return len(parts) == 1 and _DUNDER.fullmatch(parts[0]) is not None


def _check_expression(text: str, name: str) -> None:
    """Calls of SymPy's own functions, numbers and symbols: no attributes, indices, lambdas or other texts."""
    try:
        if len(text) > _MOST_EXPRESSION:
            raise ValueError
        nodes = list(ast.walk(ast.parse(text.strip(), mode="eval")))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise _refusal(name, f"the size {text[:80]!r}") from None
    symbols = {
        one
        for node in nodes
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in {"Symbol", "Float"}
        for one in node.args
    }
    if not all(_is_harmless(node, node in symbols) for node in nodes):
        raise _refusal(name, f"the size {text[:80]!r}")


def _is_harmless(node: ast.AST, is_symbol: bool) -> bool:
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Name) and node.func.id in _CALLS
    if isinstance(node, ast.Name):
        return not node.id.startswith("_")
    if isinstance(node, ast.Constant):
        if isinstance(node.value, str):
            return is_symbol and _NAME.fullmatch(node.value) is not None
        return isinstance(node.value, int | float) and abs(node.value) < _MOST_DIGITS
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow):
        return isinstance(node.right, ast.Constant) and isinstance(node.right.value, int) and node.right.value < 64
    return isinstance(node, _EXPRESSION)


def _check_containers(value: Any, name: str, depth: int) -> None:
    """How inputs and outputs are nested. Other types of containers would be imported by their names."""
    if depth > _DEEPEST:
        raise _refusal(name, "containers that are nested too deep")
    if isinstance(value, dict):
        kind, context = value.get("type"), value.get("context")
        if kind not in _CONTAINERS or "__enum__" in value:
            raise _refusal(name, f"the container {str(kind)[:80]!r} as an input or output")
        if isinstance(context, str) and ("__enum__" in context or "\\u" in context):
            raise _refusal(name, "a container whose keys are objects")
        for one in value.values():
            if isinstance(one, dict | list):
                _check_containers(one, name, depth + 1)
    elif isinstance(value, list):
        for one in value:
            _check_containers(one, name, depth + 1)


def _refusal(name: str, what: str) -> ModelError:
    return ModelError(
        f"{name}: its program has {what}, which PyTorch would evaluate as code or look up by name, and which the "
        "compiler does not know. Export the model again with torch.export.save, without objects of its own"
    )
