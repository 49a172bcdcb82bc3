"""rknn_api.h, rknn_matmul_api.h and rknn_custom_op.h: the names and values of the vendor's headers in our words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from openrknn.capi.c_headers.words import FUNCTION_WORDS, STRUCT_WORDS
from openrknn.capi.structs import NEWEST
from openrknn.vendor.tables.codes import CODES
from openrknn.vendor.tables.enums import QuantizationType, TensorFormat, TensorType
from openrknn.vendor.tables.flags import MEANINGS, InitFlag
from openrknn.vendor.tables.functions import FUNCTIONS, Parameter, Signature
from openrknn.vendor.tables.layouts import STRUCTS, Field, Struct
from openrknn.vendor.tables.names import ENUMS, LIMITS, SENTINELS, members
from openrknn.vendor.tables.versions import Version

__all__ = ["api_number", "declaration", "public_headers"]

_SENTINEL_OF = {
    "rknn_query_cmd": "RKNN_QUERY_CMD_MAX", "rknn_tensor_type": "RKNN_TENSOR_TYPE_MAX",
    "rknn_tensor_qnt_type": "RKNN_TENSOR_QNT_MAX", "rknn_tensor_format": "RKNN_TENSOR_FORMAT_MAX",
    "rknn_target_type": "RKNN_TARGET_TYPE_MAX",
}  # fmt: skip
_CONST = {("rknn_custom_op_get_op_attr", "attr_name")}
_CALLBACK = (
    "(rknn_custom_op_context* op_ctx, rknn_custom_op_tensor* inputs, uint32_t n_inputs, "
    "rknn_custom_op_tensor* outputs, uint32_t n_outputs)"
)
_CALLBACKS = {"callback": _CALLBACK, "destroy_callback": "(rknn_custom_op_context* op_ctx)"}
_SHORT = {"FLOAT32": "FP32", "FLOAT16": "FP16", "BFLOAT16": "BF16", "AFFINE_ASYMMETRIC": "AFFINE"}
_UNKNOWN = "UNKNOW"
"""As the vendor spells it: programs print it."""

_TOP = """\
/* {about}
 *
 * Part of openrknn: made from the tables of openrknn.vendor by `python -m openrknn.capi.c_headers`; do not edit.
 * Names, values and layouts are those of the vendor's header. */
#ifndef {guard}
#define {guard}

"""
_VERSION = """\
#ifndef OPENRKNN_ABI_VERSION
/* Whose structs these are: {newest} for {text}. For older ones (152 for 1.5.2) define it before, and start the program
   with OPENRKNN_ABI=1.5.2, because a library cannot see it. */
#define OPENRKNN_ABI_VERSION {newest}
#endif

"""
_WIDE = """\
#if defined(__arm__)
typedef uint32_t {name};
#else
typedef uint64_t {name};
#endif
"""
_OPEN = '#ifdef __cplusplus\nextern "C" {\n#endif\n\n'
_CLOSE = "\n#ifdef __cplusplus\n}\n#endif\n\n#endif\n"


def api_number(version: Version) -> int:
    """1.5.2 -> 152."""
    return version.major * 100 + version.minor * 10 + version.patch


def public_headers() -> Mapping[str, str]:
    """Name -> text."""
    return {"rknn_api.h": _api(), "rknn_matmul_api.h": _matmul(), "rknn_custom_op.h": _custom()}


def _api() -> str:
    enums = [name for name in ENUMS if not name.startswith(("rknn_matmul_", "rknn_target_"))]
    structs = [name for name in STRUCTS if _header_of(name) == "api"]
    parts = [
        _TOP.format(about="The RKNN C API: contexts, tensors, memory.", guard="_RKNN_API_H"),
        "#include <stdint.h>\n\n",
        _VERSION.format(newest=api_number(NEWEST), text=NEWEST),
        _OPEN,
        _defines("How a context behaves: flags of rknn_init.", _flag_rows()),
        _defines("What functions return.", _code_rows()),
        _defines("Limits.", _limits("RKNN_MAX_")),
        _WIDE.format(name="rknn_context"),
        *(_enum(name) for name in enums),
        *(_struct(name) for name in structs),
        _strings(),
        *(_function(name) for name in FUNCTIONS if _header_of(name) == "api"),
        _CLOSE,
    ]
    return "".join(parts)


def _matmul() -> str:
    parts = [
        _TOP.format(about="The RKNN C API: products of matrices.", guard="_RKNN_MATMUL_API_H"),
        '#include "rknn_api.h"\n\n',
        _OPEN,
        "typedef rknn_context rknn_matmul_ctx;\n",
        *(_enum(name) for name in ENUMS if name.startswith("rknn_matmul_")),
        *(_struct(name) for name in STRUCTS if _header_of(name) == "matmul"),
        *(_function(name) for name in FUNCTIONS if _header_of(name) == "matmul"),
        _CLOSE,
    ]
    return "".join(parts)


def _custom() -> str:
    parts = [
        _TOP.format(about="The RKNN C API: operators of the program.", guard="_RKNN_CUSTOM_OP_H"),
        '#include "rknn_api.h"\n\n',
        _OPEN,
        _defines("Limits.", _limits("RKNN_CUSTOM_OP_")),
        "/* Before the function of a plugin that returns its operator. */\n",
        '#define RKNN_CUSTOM_OP_EXPORT __attribute__((visibility("default")))\n\n',
        _WIDE.format(name="rknn_custom_op_interal_context"),
        _enum("rknn_target_type"),
        *(_struct(name) for name in STRUCTS if _header_of(name) == "custom"),
        "\n/* The function of a plugin that returns its operator: get_rknn_custom_op. */\n",
        "typedef rknn_custom_op* (*get_custom_op_func)(void);\n",
        *(_function(name) for name in FUNCTIONS if _header_of(name) == "custom"),
        _CLOSE,
    ]
    return "".join(parts)


def _header_of(name: str) -> str:
    if "custom_op" in name or name == "rknn_gpu_op_context":
        return "custom"
    return "matmul" if "matmul" in name or name in ("rknn_quant_params", _B_TO_NATIVE) else "api"


_B_TO_NATIVE = "rknn_B_normal_layout_to_native_layout"


def _defines(title: str, rows: Iterable[tuple[str, str, str]]) -> str:
    lines = [f"#define {name} {value}{f' /* {meaning} */' if meaning else ''}\n" for name, value, meaning in rows]
    return f"/* {title} */\n{''.join(lines)}\n"


def _flag_rows() -> Iterable[tuple[str, str, str]]:
    for name, flag in members(InitFlag):
        yield name, f"{int(flag):#010x}", MEANINGS[InitFlag(flag)]


def _code_rows() -> Iterable[tuple[str, str, str]]:
    for entry in CODES.values():
        yield entry.name, str(entry.code) if entry.code == 0 else f"({entry.code})", entry.meaning


def _limits(prefix: str) -> Iterable[tuple[str, str, str]]:
    return ((name, str(value), "") for name, value in LIMITS.items() if name.startswith(prefix))


def _enum(name: str) -> str:
    kind, _ = ENUMS[name]
    about = (kind.__doc__ or "").partition(": ")[2].splitlines()[0].replace("`", "")
    rows = [f"    {c} = {int(member)},\n" for c, member in members(kind)]
    if sentinel := _SENTINEL_OF.get(name):
        rows.append(f"    {sentinel} = {SENTINELS[sentinel]}\n")
    return f"\n/* {about} */\ntypedef enum _{name} {{\n{''.join(rows)}}} {name};\n"


def _struct(name: str) -> str:
    variants = STRUCTS[name]
    text = f"\n/* {STRUCT_WORDS[name]} */\n"
    if len(variants) == 1:
        return text + _body(variants[0])
    for number, variant in enumerate(reversed(variants)):
        word = "#if" if number == 0 else "#elif"
        last = number == len(variants) - 1
        text += "#else\n" if last else f"{word} OPENRKNN_ABI_VERSION >= {api_number(variant.since)}\n"
        text += _body(variant)
    return text + "#endif\n"


def _body(struct: Struct) -> str:
    rows = "".join(
        f"    {declaration(field)};{f' /* {field.meaning} */' if field.meaning else ''}\n" for field in struct.fields
    )
    return f"typedef struct _{struct.name} {{\n{rows}}} {struct.name};\n"


def declaration(field: Field) -> str:
    """A member in C."""
    if field.type in _CALLBACKS:
        return f"int (*{field.name}){_CALLBACKS[field.type]}"
    names = {value: name for name, value in LIMITS.items() if name not in ("RKNN_CUSTOM_OP_MAX_STR_LEN",)}
    lengths = "".join(f"[{names.get(length, length) if field.name in _NAMED else length}]" for length in field.array)
    return f"{field.type} {field.name}{lengths}"


_NAMED = ("dims", "name", "dyn_range", "op_type", "cl_kernel_name", "cl_build_options")
"""Arrays whose lengths are limits with a name."""


def _strings() -> str:
    """What programs print of an attribute; the vendor's header has the same three."""
    return "".join(
        _string_function(
            function, c_type, parameter, {c: _SHORT.get(str(m.name), str(m.name)) for c, m in members(kind)}
        )
        for function, c_type, parameter, kind in (
            ("get_qnt_type_string", "rknn_tensor_qnt_type", "type", QuantizationType),
            ("get_type_string", "rknn_tensor_type", "type", TensorType),
            ("get_format_string", "rknn_tensor_format", "fmt", TensorFormat),
        )
    )


def _string_function(name: str, c_type: str, parameter: str, texts: Mapping[str, str]) -> str:
    cases = "".join(f'    case {value}: return "{text}";\n' for value, text in texts.items())
    return (
        f"\n/* A name to print. */\nstatic inline const char* {name}({c_type} {parameter}) {{\n"
        f'    switch ({parameter}) {{\n{cases}    default: return "{_UNKNOWN}";\n    }}\n}}\n'
    )


def _function(name: str) -> str:
    """Its declarations; older ones where an older version is chosen."""
    signatures = FUNCTIONS[name].signatures
    text = f"\n/* {FUNCTION_WORDS[name]} */\n"
    if len(signatures) == 1:
        return text + _declared(signatures[0])
    new, old = signatures[-1], signatures[0]
    return (
        text + f"#if OPENRKNN_ABI_VERSION >= {api_number(new.since)}\n{_declared(new)}#else\n{_declared(old)}#endif\n"
    )


def _declared(signature: Signature) -> str:
    parameters = ", ".join(_parameter(signature, parameter) for parameter in signature.parameters)
    return f"{signature.returns} {signature.name}({parameters});\n"


def _parameter(signature: Signature, parameter: Parameter) -> str:
    const = "const " if (signature.name, parameter.name) in _CONST else ""
    return f"{const}{parameter.type} {parameter.name}"
