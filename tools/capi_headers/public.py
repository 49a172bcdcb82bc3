"""rknn_api.h, rknn_matmul_api.h and rknn_custom_op.h: the names and values of the vendor's headers in our words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from openrknn.capi.structs import NEWEST
from openrknn.vendor.tables.codes import CODES
from openrknn.vendor.tables.enums import MEANINGS, InitFlag, QuantizationType, TensorFormat, TensorType
from openrknn.vendor.tables.functions import FUNCTIONS, Parameter, Signature
from openrknn.vendor.tables.layouts import STRUCTS, Field, Struct
from openrknn.vendor.tables.names import ENUMS, LIMITS, SENTINELS, members
from openrknn.vendor.tables.versions import Version

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
 * Part of openrknn: made from the tables of openrknn.vendor by `python -m tools.capi_headers`; do not edit.
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


STRUCT_WORDS: Mapping[str, str] = MappingProxyType({
    "rknn_input_output_num": "RKNN_QUERY_IN_OUT_NUM.",
    "rknn_tensor_attr": "A tensor: the queries *_ATTR, rknn_set_io_mem and rknn_set_input_shapes.",
    "rknn_input_range": "RKNN_QUERY_INPUT_DYNAMIC_RANGE: the shapes that an input of a dynamic model takes.",
    "rknn_perf_detail": "RKNN_QUERY_PERF_DETAIL: needs RKNN_FLAG_COLLECT_PERF_MASK.",
    "rknn_perf_run": "RKNN_QUERY_PERF_RUN.",
    "rknn_sdk_version": "RKNN_QUERY_SDK_VERSION.",
    "rknn_mem_size": "RKNN_QUERY_MEM_SIZE.",
    "rknn_custom_string": "RKNN_QUERY_CUSTOM_STRING.",
    "rknn_tensor_mem": "Memory that the NPU and the program share.",
    "rknn_input": "Data for rknn_inputs_set.",
    "rknn_output": "Data from rknn_outputs_get.",
    "rknn_init_extend": "More about a new context.",
    "rknn_decrypt_key_mem": "A key.",
    "rknn_run_extend": "More about a run.",
    "rknn_output_extend": "More about outputs.",
    "rknn_quant_params": "How the integers of a matrix stand for real numbers.",
    "rknn_matmul_tensor_attr": "A matrix.",
    "rknn_matmul_io_attr": "The three matrices of C = A x B.",
    "rknn_matmul_shape": "The sizes of one product.",
    "rknn_matmul_info": "What a product is.",
    "rknn_gpu_op_context": "What an operator on the GPU gets.",
    "rknn_custom_op_context": "What every function of an operator gets.",
    "rknn_custom_op_tensor": "A tensor of an operator.",
    "rknn_custom_op_attr": "An attribute of an operator in the model.",
    "rknn_custom_op": "An operator of the program.",
})  # fmt: skip

FUNCTION_WORDS: Mapping[str, str] = MappingProxyType({
    "rknn_init": "Loads a model: `size` bytes at `model`, or the file whose path `model` is if `size` is 0.",
    "rknn_dup_context": "Makes another context of the same model that shares its weights.",
    "rknn_destroy": "Ends a context.",
    "rknn_query": "Asks about the model, its tensors or the last run; `info` is the struct that belongs to `cmd`.",
    "rknn_inputs_set": "Hands over input data; they are copied.",
    "rknn_set_batch_core_num": "Chooses how many cores share a batch.",
    "rknn_set_core_mask": "Chooses the cores.",
    "rknn_run": "Runs the model once; `extend` may be NULL.",
    "rknn_wait": "Waits for a run that was started with non_block.",
    "rknn_outputs_get": "Waits for the run and fetches outputs; `extend` may be NULL.",
    "rknn_outputs_release": "Frees what rknn_outputs_get allocated.",
    "rknn_create_mem_from_phys": "Memory of the program, by the address that the NPU sees.",
    "rknn_create_mem_from_fd": "Memory of the program, by its descriptor.",
    "rknn_create_mem_from_mb_blk": "Memory of the vendor's media library.",
    "rknn_create_mem": "Allocates memory that the NPU and the program share.",
    "rknn_create_mem2": "As rknn_create_mem, with flags (rknn_mem_alloc_flags).",
    "rknn_destroy_mem": "Gives memory back.",
    "rknn_set_weight_mem": "Puts the weights there (RKNN_FLAG_MEM_ALLOC_OUTSIDE).",
    "rknn_set_internal_mem": "Puts intermediate tensors there (RKNN_FLAG_INTERNAL_ALLOC_OUTSIDE).",
    "rknn_set_io_mem": "Binds memory to an input or output; nothing is copied from then on.",
    "rknn_set_input_shape": "Chooses the shape of one input of a dynamic model; rknn_set_input_shapes takes all.",
    "rknn_set_input_shapes": "Chooses the shapes of a dynamic model, one for each input.",
    "rknn_mem_sync": "Brings caches up to date.",
    "rknn_matmul_create": "Makes a context for C = A x B, and says how the matrices must lie in memory.",
    "rknn_matmul_create_dynamic_shape": "The same for several sizes.",
    "rknn_matmul_set_io_mem": "Binds memory to a matrix.",
    "rknn_matmul_set_core_mask": "Chooses the cores.",
    "rknn_matmul_set_quant_params": "Says how the integers of a matrix stand for real numbers.",
    "rknn_matmul_get_quant_params": "The scales that A, B and C give together.",
    "rknn_matmul_set_dynamic_shape": "Chooses one of the sizes.",
    "rknn_matmul_run": "Multiplies.",
    "rknn_matmul_destroy": "Ends a context.",
    "rknn_B_normal_layout_to_native_layout": "Brings B into the NPU's own layout.",
    "rknn_register_custom_ops": "Gives the model operators that the program has.",
    "rknn_custom_op_get_op_attr": "An attribute of the operator; n_elems is 0 if there is none.",
})  # fmt: skip
