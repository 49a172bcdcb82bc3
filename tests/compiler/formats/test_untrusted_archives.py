"""PyTorch archives of an attacker: what PyTorch gets to open, and that no code of the file runs.

The rewriting is checked without PyTorch. Where PyTorch is installed, each archive is read to the end, and a file that
its code would create shows whether any of it ran.
"""

from __future__ import annotations

import contextlib
import copy
import importlib.util
import io
import json
import os
import pickle
import struct
import zipfile
from pathlib import Path
from typing import Any

import pytest

from openrknn.compiler import read_model
from openrknn.compiler.errors import ModelError
from openrknn.compiler.importer.formats.pytorch.archive import kind_of, rewrite

HAS = all(importlib.util.find_spec(name) for name in ("torch", "onnxscript"))
needs_torch = pytest.mark.skipif(not HAS, reason="PyTorch or onnxscript is not installed: nothing would be loaded")


class Evil:
    """Runs a command when it is unpickled."""

    def __init__(self, sentinel: Path) -> None:
        self.sentinel = sentinel

    def __reduce__(self) -> Any:
        return os.system, (f"touch '{self.sentinel}'",)


def zipped(members: list[tuple[str, bytes]]) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive, pytest.MonkeyPatch.context() as patch:
        patch.setattr("warnings.warn", lambda *_, **__: None)  # a name twice
        for name, data in members:
            archive.writestr(zipfile.ZipInfo(name), data)
    return stream.getvalue()


def saved(thing: object, protocol: int = 2) -> bytes:
    """What `torch.save` writes around a pickle."""
    return zipped([("x/data.pkl", pickle.dumps(thing, protocol)), ("x/version", b"3\n"), ("x/byteorder", b"little")])


INT = {"as_int": 1}
META = {"dtype": 7, "sizes": [INT], "strides": [INT], "requires_grad": False, "storage_offset": {"as_int": 0},
        "device": {"type": "cpu", "index": None}, "layout": 7}  # fmt: skip
SPEC = json.dumps([1, {"type": None, "context": None, "children_spec": []}])
INPUTS = json.dumps([1, {"type": "builtins.tuple", "context": "null", "children_spec": [
    {"type": "builtins.tuple", "context": "null", "children_spec": [json.loads(SPEC)[1]]},
    {"type": "builtins.dict", "context": "[]", "children_spec": []}]}])  # fmt: skip


def program() -> dict[str, Any]:
    """relu(x), as torch.export writes it."""
    tensor = {"as_tensor": {"name": "x"}}
    made = {"as_tensor": {"name": "relu"}}
    node = {"target": "torch.ops.aten.relu.default", "inputs": [{"name": "self", "arg": tensor, "kind": 1}],
            "outputs": [made], "metadata": {"stack_trace": "File 'a.py'"}, "is_hop_single_tensor_return": None,
            "name": "relu"}  # fmt: skip
    graph = {"inputs": [tensor], "outputs": [made], "nodes": [node], "tensor_values": {"x": META, "relu": META},
             "sym_int_values": {}, "sym_bool_values": {}, "is_single_tensor_return": False, "custom_obj_values": {},
             "sym_float_values": {}}  # fmt: skip
    call = {"fqn": "", "signature": {"inputs": [], "outputs": [], "in_spec": INPUTS, "out_spec": SPEC,
                                     "forward_arg_names": ["x"]}}  # fmt: skip
    signature = {"input_specs": [{"user_input": {"arg": tensor}}], "output_specs": [{"user_output": {"arg": made}}]}
    module = {"graph": graph, "signature": signature, "module_call_graph": [call], "metadata": {},
              "treespec_namedtuple_fields": {}}  # fmt: skip
    whole = {"graph_module": module, "opset_version": {"aten": 10}, "range_constraints": {},
             "schema_version": {"major": 8, "minor": 8},
            "verifiers": ["TRAINING"], "torch_version": "2.8.0", "guards_code": []}  # fmt: skip
    return copy.deepcopy(whole)


def good(**changed: Any) -> list[tuple[str, bytes]]:
    return [
        ("net/archive_format", b"pt2"), ("net/archive_version", b"0"), ("net/byteorder", b"little"),
        ("net/.data/version", b"6\n"),
        ("net/models/model.json", json.dumps(changed.get("program", program())).encode()),
        ("net/data/weights/model_weights_config.json", json.dumps(changed.get("weights", {"config": {}})).encode()),
        ("net/data/constants/model_constants_config.json",
         json.dumps(changed.get("constants", {"config": {}})).encode()),
        ("net/data/sample_inputs/model.pt", changed.get("inputs", b"")),
    ]  # fmt: skip


def renamed(data: bytes, name: bytes, other: bytes) -> bytes:
    """Another name in the local header than in the directory."""
    at = data.index(name)
    return data[:at] + other + data[at + len(name) :]


def hidden_behind_a_prefix(data: bytes, evil: bytes) -> bytes:
    """A complete second archive in front of the first."""
    return evil + data


def variants(sentinel: Path) -> dict[str, bytes]:
    evil = saved(Evil(sentinel))
    weight = {"config": {"w": {"path_name": "weight_0", "is_param": True, "use_pickle": True, "tensor_meta": None}}}
    opaque = {"config": {"w": {"path_name": "opaque_obj_0", "is_param": False, "use_pickle": True,
                               "tensor_meta": None}}}  # fmt: skip
    without = [one for one in good() if "sample_inputs" not in one[0]]
    inputs = "net/data/sample_inputs/model.pt"
    code = f"__import__('os').system('touch {sentinel}')"
    sized, named, called, guarded, enumerated = (program() for _ in range(5))
    sized["graph_module"]["graph"]["tensor_values"]["x"]["sizes"] = [{"as_expr": {"expr_str": code, "hint": None}}]
    for one in named["graph_module"]["graph"]["inputs"]:
        one["as_tensor"]["name"] = f"x={code}"
    called["graph_module"]["graph"]["nodes"][0]["target"] = "torch.os.system"
    called["graph_module"]["graph"]["nodes"][0]["inputs"][0]["arg"] = {"as_string": f"touch {sentinel}"}
    guarded["guards_code"] = [code]
    context = json.dumps({"__enum__": True, "fqn": "antigravity:x", "name": "y"})
    enumerated["graph_module"]["module_call_graph"][0]["signature"]["in_spec"] = json.dumps(
        [1, {"type": "builtins.dict", "context": context, "children_spec": []}]
    )
    return {
        "upper case": zipped([*without, ("net/data/sample_inputs/model.PT", evil)]),
        "upper case folder": zipped([*without, ("net/data/SAMPLE_INPUTS/model.Pt", evil)]),
        "evil beside good": zipped([*good(), ("net/data/sample_inputs/model.PT", evil)]),
        "twice, evil first": zipped([(inputs, evil), *good()]),
        "twice, evil last": zipped([*good(), (inputs, evil)]),
        "evil sample inputs": zipped(good(inputs=evil)),
        "bare pickle as sample inputs": zipped(good(inputs=pickle.dumps(Evil(sentinel), 2))),
        "local header differs": renamed(
            zipped([*without, ("net/data/sample_inputs/model.xx", evil)]), b"model.xx", b"model.pt"
        ),
        "archive before the archive": hidden_behind_a_prefix(zipped(good()), zipped(good(inputs=evil))),
        "other folder first": zipped(
            [("evil/data/sample_inputs/model.pt", evil), ("evil/archive_format", b"pt2"), *good()]
        ),
        "folder in capitals": zipped([*good(), ("NET/data/sample_inputs/model.pt", evil)]),
        "dots in the path": zipped([*without, ("net/data/../data/sample_inputs/model.pt", evil)]),
        "pickled weight": zipped([*good(weights=weight), ("net/data/weights/weight_0", evil)]),
        "bare pickle as weight": zipped(
            [*good(weights=weight), ("net/data/weights/weight_0", pickle.dumps(Evil(sentinel), 4))]
        ),
        "pickled weight, protocol 4": zipped(
            [*good(weights=weight), ("net/data/weights/weight_0", saved(Evil(sentinel), 4))]
        ),
        "pickled object": zipped(
            [*good(constants=opaque), ("net/data/constants/opaque_obj_0", pickle.dumps(Evil(sentinel), 2))]
        ),
        "code in a size": zipped(good(program=sized)),
        "code in a name": zipped(good(program=named)),
        "any function as operator": zipped(good(program=called)),
        "guards": zipped(good(program=guarded)),
        "module to import": zipped(good(program=enumerated)),
        "old format": zipped([
            ("serialized_exported_program.json", json.dumps(program()).encode()), ("version", b"8.8"),
            ("serialized_state_dict.pt", evil), ("serialized_constants.pt", b""),
            ("serialized_example_inputs.pt", evil),
        ]),
    }  # fmt: skip


NAMES = sorted(variants(Path("x")))


@pytest.mark.parametrize("name", NAMES)
def test_no_pickle_of_the_file_reaches_pytorch(tmp_path: Path, name: str) -> None:
    """Without PyTorch: the archive is refused, or the new one has one plain set of names and no command in it."""
    sentinel = tmp_path / "ran"
    data, target = variants(sentinel)[name], tmp_path / "new.pt2"
    try:
        kind = kind_of(data)
        assert kind in {"pt2", "legacy", "unknown"}
        if kind != "pt2":
            return
        rewrite(data, kind, target)
    except ModelError:
        return
    with zipfile.ZipFile(target) as archive:
        names = [entry.filename for entry in archive.infolist()]
        assert len({one.casefold() for one in names}) == len(names)
        assert all(one == one.casefold() and one.startswith("model/") for one in names)
        assert archive.read("model/data/sample_inputs/model.pt") == b""
        whole = b"".join(archive.read(one) for one in names)
    assert str(sentinel).encode() not in whole
    assert b"system" not in whole


@needs_torch
@pytest.mark.parametrize("name", ["upper case", "twice, evil first", "local header differs", "guards"])
def test_no_code_of_the_file_runs(tmp_path: Path, name: str) -> None:
    sentinel = tmp_path / "ran"
    path = tmp_path / "net.pt2"
    path.write_bytes(variants(sentinel)[name])
    with contextlib.suppress(ModelError):
        read_model(path)
    assert not sentinel.exists()


@needs_torch
def test_the_harmless_archive_is_read(tmp_path: Path) -> None:
    model = read_model(zipped(good(inputs=saved(Evil(tmp_path / "ran")))))
    assert [node.op_type for node in model.graph.node] == ["Relu"]
    assert not (tmp_path / "ran").exists()


def test_what_only_costs_memory_is_refused() -> None:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("net/archive_format", b"pt2")
        archive.writestr("net/models/model.json", b" " * (80 << 20))
    with pytest.raises(ModelError, match="unpacks to"):
        kind_of(stream.getvalue())
    many = zipped([(f"net/{number}", b"") for number in range(300)])
    at = many.rindex(b"PK\x05\x06")
    with pytest.raises(ModelError):  # the directory announces other members than it has
        read_model(many[:at] + many[at : at + 8] + struct.pack("<HH", 9, 9) + many[at + 12 :])


SCRIPT = [
    ("net/data.pkl", b"\x80\x02c__torch__\nM\n)\x81."), ("net/constants.pkl", b"\x80\x02)."), ("net/version", b"3\n"),
    ("net/code/__torch__.py", b"class M(Module):\n  pass\n"), ("net/byteorder", b"little"),
]  # fmt: skip


def test_torchscript_keeps_known_members_only(tmp_path: Path) -> None:
    data = zipped([*SCRIPT, ("net/extra/evil.py", b"import os"), ("net/code/__torch__.py.debug_pkl", b"\x80\x02."),
                   ("net/bytecode.pkl", pickle.dumps(Evil(tmp_path / "x"), 2))])  # fmt: skip
    assert kind_of(data) == "script"
    rewrite(data, "script", tmp_path / "new.pt")
    with zipfile.ZipFile(tmp_path / "new.pt") as archive:
        assert sorted(archive.namelist()) == [
            "model/byteorder", "model/code/__torch__.py", "model/constants.pkl", "model/data.pkl", "model/version",
        ]  # fmt: skip


@pytest.mark.parametrize(("member", "data", "message"), [
    ("net/code/__torch__.py", b"y = torch.from_file('/etc/passwd')", "from_file"),
    ("net/code/__torch__.py", b"torch.save(x, '/tmp/x')", "torch.save"),
    ("net/code/__torch__.py", b"ops.image.read_file('/etc/passwd')", "ops.image"),
    ("net/data.pkl", b"\x80\x02cposix\nsystem\n.", "posix system"),
    ("net/data.pkl", b"\x80\x02c__torch__.torch.classes.dist_c10d\nStore\n.", "dist_c10d"),
    ("net/data.pkl", b"\x80\x04\x8c\x05posix\x8c\x06system\x93.", "stack_global"),
    ("net/constants.pkl", b"\xff", "damaged"),
])  # fmt: skip
def test_torchscript_that_reaches_out_is_refused(tmp_path: Path, member: str, data: bytes, message: str) -> None:
    members = [(name, data if name == member else old) for name, old in SCRIPT]
    with pytest.raises(ModelError, match=message):
        rewrite(zipped(members), "script", tmp_path / "new.pt")


def test_a_member_without_a_name() -> None:
    data = zipped([("net/x", b"1"), ("net/data.pkl", b"2")]).replace(b"net/x", b"\0et/x")
    with pytest.raises(ModelError, match="a member with the name ''"):
        kind_of(data)
