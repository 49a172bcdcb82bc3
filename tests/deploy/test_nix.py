"""The Nix files: they parse, and the modules evaluate.

`OPENRKNN_NIXPKGS_LIB` names the folder `lib` of nixpkgs (or of nix-community/nixpkgs.lib); without it a small stand-in
of our own takes its place, which knows what our modules use.
"""

from __future__ import annotations

import ast
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
import tomli

from openrknn.cli.main import build_parser
from tests.deploy.systemd import verify

FOLDER = Path(__file__).parents[2] / "deploy/nix"
FILES = sorted(FOLDER.rglob("*.nix"))
EVAL = Path(__file__).parent / "nix"
VARIABLE = "OPENRKNN_NIXPKGS_LIB"

MISSING = not shutil.which("nix-instantiate")
pytestmark = pytest.mark.skipif(MISSING, reason="nix is not here (Debian: apt install nix-bin)")


def nix(*words: str, tmp_path: Path) -> subprocess.CompletedProcess[str]:
    """Without a daemon and without writing outside of the test's folder."""
    store = {
        "NIX_STORE_DIR": "store", "NIX_STATE_DIR": "state", "NIX_LOG_DIR": "log", "NIX_CONF_DIR": "conf",
        "NIX_LOCALSTATE_DIR": "local",
    }  # fmt: skip
    clean = {name: value for name, value in os.environ.items() if not name.startswith("NIX_")}
    environment = {**clean, **{name: str(tmp_path / place) for name, place in store.items()}}
    environment["NIX_CONFIG"] = "build-users-group ="
    return subprocess.run(["nix-instantiate", *words], capture_output=True, text=True, check=False, env=environment)


@pytest.mark.parametrize("path", [*FILES, *sorted(EVAL.glob("*.nix"))], ids=lambda path: path.name)
def test_files_parse(path: Path, tmp_path: Path) -> None:
    done = nix("--parse", str(path), tmp_path=tmp_path)
    assert done.returncode == 0, done.stderr


LIBRARIES = ["stand-in", "nixpkgs"]


@pytest.fixture(params=LIBRARIES)
def library(request: pytest.FixtureRequest) -> str:
    if request.param == "stand-in":
        return str(EVAL / "lib.nix")
    place = os.environ.get(VARIABLE)
    if not place:
        pytest.skip(f"{VARIABLE} does not name the folder lib of nixpkgs")
    return place


def evaluate(library: str, tmp_path: Path, configuration: str, **more: str) -> Any:
    extra = "".join(f'{name} = "{value}"; ' for name, value in more.items())
    expression = f"import {EVAL}/eval.nix {{ libPath = {library}; configuration = {{ {configuration} }}; {extra}}}"
    done = nix("--eval", "--strict", "--json", "--expr", expression, tmp_path=tmp_path)
    if done.returncode:
        raise ValueError(done.stderr)
    return json.loads(done.stdout)


def test_nothing_happens_unless_it_is_enabled(library: str, tmp_path: Path) -> None:
    result = evaluate(library, tmp_path, "")
    assert (result["kernelModules"], result["services"], result["rules"], result["failed"]) == ([], {}, "", [])


def test_rocket_where_the_kernel_has_it(library: str, tmp_path: Path) -> None:
    result = evaluate(library, tmp_path, 'hardware.rockchip.npu = { enable = true; users = [ "alice" ]; };')
    assert (result["kernelModules"], result["initrd"]) == (["rocket"], ["rocket"])
    assert result["blacklistedKernelModules"] == ["rknpu"]
    assert result["failed"] == []
    assert 'SUBSYSTEM=="accel"' in result["rules"]
    assert result["users"]["alice"]["extraGroups"] == ["render"]


def test_rknpu_on_older_kernels_with_a_governor_and_the_vendors_library(library: str, tmp_path: Path) -> None:
    text = """hardware.rockchip.npu = {
        enable = true; soc = "rk3588"; governor = "performance"; group = "npu"; vendorRuntime.enable = true;
        cdi.enable = true;
    };"""
    result = evaluate(library, tmp_path, text, kernel="6.1.75")
    assert (result["kernelModules"], result["initrd"], result["failed"]) == (["rknpu"], [], [])
    assert 'ATTR{governor}="performance"' in result["rules"]
    assert 'GROUP="npu"' in result["rules"]
    assert 'GROUP="render"' not in result["rules"]
    assert result["groups"] == ["npu"]
    assert result["variables"]["OPENRKNN_LIBRARY"] == "/nix/store/rknn-runtime/lib/librknnrt.so"
    start = result["services"]["openrknn-cdi"]["ExecStart"].split()
    build_parser((start[1],)).parse_args(start[1:])


def test_the_open_library_in_the_place_of_the_vendors(library: str, tmp_path: Path) -> None:
    """On both drivers, also on that which the vendor's library cannot use."""
    for kernel, driver in (("6.18.2", "rocket"), ("6.1.75", "rknpu")):
        text = "hardware.rockchip.npu = { enable = true; openRuntime.enable = true; };"
        result = evaluate(library, tmp_path, text, kernel=kernel)
        assert (result["kernelModules"], result["failed"]) == ([driver], [])
        assert result["packages"] == ["/nix/store/openrknn", "/nix/store/openrknn-librknnrt"]
        assert result["variables"] == {"LD_LIBRARY_PATH": ["/nix/store/openrknn-librknnrt/lib"]}


@pytest.mark.parametrize(
    ("configuration", "more", "message"),
    [
        ("vendorRuntime.enable = true; openRuntime.enable = true;", {"kernel": "6.1.75"}, "enable one of them"),
        ('driver = "rocket";', {"kernel": "6.12.1"}, "needs Linux 6.18"),
        ('driver = "rocket"; soc = "rk3576";', {}, "serves RK3588 only"),
        ('vendorRuntime.enable = true; driver = "rocket";', {}, "librknnrt.so cannot use rocket"),
        ('governor = "performance"; driver = "rocket";', {}, "only rknpu has a clock"),
        ("", {"system": "x86_64-linux"}, "64-bit Arm"),
    ],
)
def test_assertions(configuration: str, more: dict[str, str], message: str, library: str, tmp_path: Path) -> None:
    text = f"hardware.rockchip.npu = {{ enable = true; {configuration} }};"
    assert any(message in one for one in evaluate(library, tmp_path, text, **more)["failed"])


@pytest.mark.parametrize(
    "configuration",
    [
        'hardware.rockchip.npu = { enable = true; driver = "nvidia"; };',
        "hardware.rockchip.npu.enabled = true;",
        'services.openrknn.port = "many";',
        "services.openrknn.port = 123456;",
    ],
)
def test_mistakes_are_found(configuration: str, library: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="error"):
        evaluate(library, tmp_path, f"services.openrknn.enable = true; {configuration}")


def test_the_services(library: str, tmp_path: Path) -> None:
    text = """services.openrknn = {
        enable = true; models.yolo = "/srv/yolo.rknn"; modelRepository = /srv/models; host = "0.0.0.0";
        openFirewall = true; tokenFile = /etc/token; exporter.enable = true;
        devicePlugin = { enable = true; strategy = "cores"; shares = 2; };
    };"""
    result = evaluate(library, tmp_path, text)
    assert result["failed"] == []
    assert result["ports"] == [8000, 8001]
    units = result["services"]
    assert set(units) == {"openrknn", "openrknn-exporter", "openrknn-device-plugin"}
    for unit in units.values():
        words = [word.strip("'") for word in unit["ExecStart"].split()]
        assert words[0] == "/nix/store/openrknn/bin/openrknn"
        build_parser((words[1],)).parse_args(words[1:])
        assert (unit["ProtectSystem"], unit["NoNewPrivileges"]) == ("strict", True)
    assert units["openrknn"]["DynamicUser"]
    assert "/nix/store/openrknn-models-yolo/1/model.rknn=/srv/yolo.rknn" in units["openrknn"]["ExecStart"]
    assert units["openrknn"]["LoadCredential"] == ["token:/etc/token"]
    assert "without TLS" in result["warnings"][0]
    check_units(units, tmp_path)


def check_units(units: dict[str, dict[str, Any]], tmp_path: Path) -> None:
    """By the program that reads them: systemd itself."""
    for name, unit in units.items():
        lines = ["[Service]", *(f"Environment={key}={value}" for key, value in unit["environment"].items())]
        for key, value in unit.items():
            if key not in {"environment", "wantedBy"}:
                lines += [f"{key}={_word(one)}" for one in (value if isinstance(value, list) else [value])]
        path = tmp_path / f"{name}.service"
        # The program has to exist for the check; any will do.
        path.write_text("\n".join(lines).replace("/nix/store/openrknn/bin/openrknn", sys.executable) + "\n")
        verify(path)


def _word(value: object) -> str:
    return ("yes" if value else "no") if isinstance(value, bool) else str(value)


def test_secrets_models_with_labels_and_sources(library: str, tmp_path: Path) -> None:
    text = """services.openrknn = {
        enable = true; memoryMax = "1G"; environmentFile = "/run/secrets/s3.env"; sources = [ "s3://models/board" ];
        models.street = { path = "/a.rknn"; labels = "/a.txt"; settings = { instances = 2; threshold = 0.5; }; };
        tokenFile = /etc/token; tls = { certificate = "/c.pem"; key = "/k.pem"; clientCa = "/ca.pem"; };
    };"""
    result = evaluate(library, tmp_path, text)
    assert (result["failed"], result["warnings"]) == ([], [])
    unit = result["services"]["openrknn"]
    assert unit["LoadCredential"] == ["token:/etc/token", "certificate:/c.pem", "key:/k.pem", "client-ca:/ca.pem"]
    assert (unit["MemoryMax"], unit["EnvironmentFile"]) == ("1G", "/run/secrets/s3.env")
    words = [word.strip("'") for word in shlex.split(unit["ExecStart"])]
    chosen = build_parser((words[1],)).parse_args(words[1:])
    assert chosen.tls_key == "/run/credentials/openrknn.service/key"
    assert chosen.poll == 10
    assert "s3://models/board" in words
    farm = next(word for word in words if "openrknn-models" in word)
    assert "street/labels.txt=/a.txt" in farm
    assert 'street-model.toml-{"instances":2,"threshold":0.5}' in farm
    check_units(result["services"], tmp_path)


def test_the_dra_driver_outside_of_a_pod(library: str, tmp_path: Path) -> None:
    text = """services.openrknn.devicePlugin = { enable = true; dra = {
        enable = true; apiServer = "https://10.0.0.1:6443"; tokenFile = "/t"; caFile = "/ca";
    }; };"""
    result = evaluate(library, tmp_path, text)
    unit = result["services"]["openrknn-device-plugin"]
    words = shlex.split(unit["ExecStart"])
    chosen = build_parser((words[1],)).parse_args(words[1:])
    assert (chosen.dra, chosen.node, chosen.api_server) == (True, "board1", "https://10.0.0.1:6443")
    assert "-/var/lib/kubelet/plugins_registry" in unit["ReadWritePaths"]
    check_units(result["services"], tmp_path)


@pytest.mark.parametrize("vm", ["server", "plugin"])
def test_virtual_machines(vm: str, library: str, tmp_path: Path) -> None:
    """They need KVM to run; here they are evaluated, their scripts compiled and their units checked."""
    result = evaluate(library, tmp_path, "", vm=vm)
    for node in result["nodes"].values():
        assert node["failed"] == []
        check_units(node["services"], tmp_path)
        for unit in node["services"].values():
            words = shlex.split(unit["ExecStart"])
            build_parser((words[1],)).parse_args(words[1:])
    tree = ast.parse(textwrap.dedent(result["script"]))
    made = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    made |= {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    made |= {argument.arg for node in ast.walk(tree) if isinstance(node, ast.arguments) for argument in node.args}
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    driver = {"start_all", "subtest", "json", "print"}
    assert used - made - driver == set(result["nodes"])


def test_a_model_beside_the_configuration_belongs_to_the_system(library: str, tmp_path: Path) -> None:
    """A path is copied into the store; only so it is there on the machine that the system is copied to."""
    (tmp_path / "eyes.rknn").write_bytes(b"RKNN")
    text = f"services.openrknn = {{ enable = true; models.eyes = {tmp_path}/eyes.rknn; }};"
    result = evaluate(library, tmp_path, text)
    assert re.search(r"model\.rknn=\S*store/\w{32}-eyes\.rknn", result["services"]["openrknn"]["ExecStart"])


def test_the_server_is_in_the_npus_group(library: str, tmp_path: Path) -> None:
    npu = 'hardware.rockchip.npu = { enable = true; group = "npu"; };'
    result = evaluate(library, tmp_path, npu + 'services.openrknn = { enable = true; models.a = "/a"; };')
    assert result["services"]["openrknn"]["SupplementaryGroups"] == ["npu", "video"]


@pytest.mark.parametrize(
    ("kernel", "more", "driver"),
    [
        ("6.1.75", "", "rknpu"), ("5.10.209", "", "rknpu"), ("6.12.9", "", None), ("6.11.0", "", None),
        ("6.12.9", 'modulePackage = { type = "derivation"; name = "rknpu"; outPath = "/nix/rknpu"; };', "rknpu"),
        ("6.18.2", "", "rocket"),
        ("6.18.2", 'soc = "rk3576";', None),
    ],
)  # fmt: skip
def test_a_kernel_without_a_driver_gets_none_and_a_warning(
    kernel: str, more: str, driver: str | None, library: str, tmp_path: Path
) -> None:
    result = evaluate(library, tmp_path, f"hardware.rockchip.npu = {{ enable = true; {more} }};", kernel=kernel)
    assert result["kernelModules"] == ([driver] if driver else [])
    assert bool(result["warnings"]) == (driver is None)
    if driver is None:
        assert result["blacklistedKernelModules"] == []
        assert f"Linux {kernel} has no driver for this NPU" in result["warnings"][0]


@pytest.mark.parametrize(
    ("configuration", "message"),
    [
        ("", "name models"),
        ('models.a = "/a"; tls.certificate = "/c";', "set both"),
        ('models.a = "/a"; tls.clientCa = "/c";', "no TLS"),
        ('models.a = "/a"; host = "0.0.0.0"; openFirewall = true;', "without a token"),
    ],
)
def test_assertions_of_the_server(configuration: str, message: str, library: str, tmp_path: Path) -> None:
    result = evaluate(library, tmp_path, f"services.openrknn = {{ enable = true; {configuration} }};")
    assert any(message in one for one in result["failed"])


def test_the_flake_offers_what_it_says(tmp_path: Path) -> None:
    expression = f"(import {FOLDER}/flake.nix).inputs.nixpkgs.url"
    done = nix("--eval", "--json", "--expr", expression, tmp_path=tmp_path)
    assert "nixpkgs" in done.stdout


def dependencies(*extras: str) -> set[str]:
    """What pyproject.toml says that is needed."""
    project = tomli.loads((FOLDER.parents[1] / "pyproject.toml").read_text())["project"]
    lines = [*project["dependencies"], *(line for extra in extras for line in project["optional-dependencies"][extra])]
    lines = [line for line in lines if "python_version < '3.11'" not in line]  # nixpkgs has no such Python
    return {re.split(r"[>=<\[; ]", line)[0] for line in lines} - {"openrknn"}


def test_packages_evaluate_with_recorded_arguments(tmp_path: Path) -> None:
    """A stand-in of nixpkgs that hands back what it was called with."""
    expression = f"""
      let
        lib = {{
          licenses = {{ asl20 = "asl20"; unfree = "unfree"; }}; platforms.linux = [ "linux" ];
          sourceTypes.binaryNativeCode = "binary"; cleanSource = path: toString path;
          optionals = c: v: if c then v else [ ]; replaceStrings = builtins.replaceStrings;
        }};
        stdenv = {{ mkDerivation = x: x; cc.cc.lib = "libstdc++"; }};
        names = builtins.listToAttrs (map (name: {{ inherit name; value = name; }})
          [ "numpy" "rich" "pillow" "starlette" "uvicorn" "websockets" "httptools" "orjson" "grpcio" "protobuf"
            "prometheus-client" "scikit-build-core" ]);
        application = import {FOLDER}/packages/openrknn.nix {{
          inherit lib; cmake = "cmake"; ninja = "ninja";
          python3Packages = names // {{ buildPythonApplication = x: x; }};
        }};
        runtime = import {FOLDER}/packages/rknn-runtime.nix {{
          inherit lib stdenv; python3Packages.fetchPypi = x: x.sha256; unzip = "unzip"; autoPatchelfHook = "hook";
        }};
        open = import {FOLDER}/packages/librknnrt.nix {{
          inherit lib; openrknn = {{ version = "1"; outPath = "/nix/store/openrknn"; }};
          runCommand = name: arguments: script: {{ inherit name script; inherit (arguments.meta) license; }};
        }};
        lite = version: import {FOLDER}/packages/rknn-toolkit-lite2.nix {{
          inherit lib stdenv; buildPythonPackage = x: x; fetchPypi = x: x.sha256; python.pythonVersion = version;
          pythonAtLeast = _: false; pythonOlder = _: false; autoPatchelfHook = "hook"; numpy = "numpy";
          psutil = "psutil"; ruamel-yaml = "yaml";
        }};
      in {{
        application = {{ inherit (application) pname version dependencies; main = application.meta.mainProgram; }};
        runtime = {{ inherit (runtime) pname src; inherit (runtime.meta) license; }};
        inherit open;
        lite = map (version: (lite version).src) [ "3.10" "3.11" "3.12" ];
      }}"""
    done = nix("--eval", "--strict", "--json", "--expr", expression, tmp_path=tmp_path)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["application"]["main"] == "openrknn"
    assert set(result["application"]["dependencies"]) == dependencies("images", "serve", "kubernetes")
    assert result["runtime"]["license"] == "unfree"
    assert (result["open"]["name"], result["open"]["license"]) == ("openrknn-librknnrt-1", "asl20")
    words = result["open"]["script"].split()
    assert words[0] == "/nix/store/openrknn/bin/openrknn"
    build_parser((words[1],)).parse_args(words[1:])
    assert all(len(one) == 64 for one in [*result["lite"], result["runtime"]["src"]])
