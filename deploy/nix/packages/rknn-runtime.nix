# librknnrt.so 1.5.2, from the wheel `rknpu` of the Python registry, pinned by hash.
# A newer one: rknn-runtime.override { source = fetchurl { url = "..."; hash = "..."; }; version = "2.3.2"; }
# where source is the bare librknnrt.so of rknpu2/runtime/Linux/librknn_api/aarch64 in airockchip/rknn-toolkit2.
{ lib
, stdenv
, python3Packages
, unzip
, autoPatchelfHook
, version ? "1.5.2"
, source ? python3Packages.fetchPypi {
    pname = "rknpu";
    inherit version;
    format = "wheel";
    dist = "cp311";
    python = "cp311";
    abi = "cp311";
    platform = "manylinux_2_17_aarch64.manylinux2014_aarch64";
    sha256 = "486e0714f3097ee9301cc01bd24bc89b4364a14f0078c63b92b6bd53ce7f962d";
  }
}:

stdenv.mkDerivation {
  pname = "rknn-runtime";
  inherit version;
  src = source;

  nativeBuildInputs = [ unzip autoPatchelfHook ];
  buildInputs = [ stdenv.cc.cc.lib ];
  dontUnpack = true;
  dontStrip = true;

  installPhase = ''
    runHook preInstall
    mkdir -p $out/lib
    case "$src" in
      *.whl)
        unzip -q "$src" 'rknpu.libs/librknnrt*' -d wheel
        install -m 0755 wheel/rknpu.libs/librknnrt*.so* $out/lib/librknnrt.so
        ;;
      *)
        install -m 0755 "$src" $out/lib/librknnrt.so
        ;;
    esac
    runHook postInstall
  '';

  meta = {
    description = "Rockchip's proprietary runtime for the NPUs of RK3566, RK3568, RK3588, RK3576";
    homepage = "https://github.com/airockchip/rknn-toolkit2";
    license = lib.licenses.unfree;
    sourceProvenance = [ lib.sourceTypes.binaryNativeCode ];
    platforms = [ "aarch64-linux" ];
  };
}
