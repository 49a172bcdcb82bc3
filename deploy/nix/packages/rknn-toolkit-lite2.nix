# The vendor's Python package for boards, pinned by hash for each Python that it was built for.
{ lib
, buildPythonPackage
, fetchPypi
, python
, pythonAtLeast
, pythonOlder
, autoPatchelfHook
, numpy
, psutil
, ruamel-yaml
, stdenv
}:

let
  version = "2.5.0";
  tag = "cp${lib.replaceStrings [ "." ] [ "" ] python.pythonVersion}";
  hashes = {
    cp310 = "57a5a1f967ff88a1f933abc15a64cf11db37fb406c00cb610f20a566ec231161";
    cp311 = "1f1ef5df21d0abf9c8d6d582e21fb8226c2f7ffc17d7744cd18260a7343d503f";
    cp312 = "5cea0e6ff6e52974debf21719b4499803b5ab62550107274e709846531bf53e1";
  };
in
buildPythonPackage {
  pname = "rknn-toolkit-lite2";
  inherit version;
  format = "wheel";
  disabled = pythonOlder "3.10" || pythonAtLeast "3.13";

  src = fetchPypi {
    pname = "rknn_toolkit_lite2";
    inherit version;
    format = "wheel";
    dist = tag;
    python = tag;
    abi = tag;
    platform = "manylinux_2_17_aarch64.manylinux2014_aarch64";
    sha256 = hashes.${tag} or (throw "rknn-toolkit-lite2 ${version} has no wheel for ${tag}");
  };

  nativeBuildInputs = [ autoPatchelfHook ];
  buildInputs = [ stdenv.cc.cc.lib ];
  dependencies = [ numpy psutil ruamel-yaml ];
  dontStrip = true;

  meta = {
    description = "Rockchip's proprietary Python API for running .rknn models on a board";
    homepage = "https://github.com/airockchip/rknn-toolkit2";
    license = lib.licenses.unfree;
    sourceProvenance = [ lib.sourceTypes.binaryNativeCode ];
    platforms = [ "aarch64-linux" ];
  };
}
