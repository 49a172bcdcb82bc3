{ lib
, python3Packages
, cmake
, ninja
, withServer ? true
, withKubernetes ? true
}:

python3Packages.buildPythonApplication {
  pname = "openrknn";
  # Said once, in the package itself.
  version = builtins.head (builtins.match ".*\n__version__ = \"([^\"]+)\".*"
    (builtins.readFile ../../../src/openrknn/__init__.py));
  pyproject = true;

  src = lib.cleanSource ../../..;

  build-system = [ python3Packages.scikit-build-core ];
  nativeBuildInputs = [ cmake ninja ];
  # scikit-build-core calls cmake itself.
  dontUseCmakeConfigure = true;

  dependencies = with python3Packages; [ numpy rich pillow ]
    ++ lib.optionals withServer [ starlette uvicorn websockets httptools orjson grpcio protobuf prometheus-client ]
    ++ lib.optionals withKubernetes [ grpcio protobuf ];

  # The whole suite needs the vendor's files; what a package has to prove is that it imports and runs.
  doCheck = false;
  pythonImportsCheck = [ "openrknn" "openrknn.monitor" "openrknn.doctor" ];

  postInstall = ''
    install -D -m 0644 deploy/udev/70-openrknn-npu.rules $out/lib/udev/rules.d/70-openrknn-npu.rules
  '';

  meta = {
    description = "The open RKNN stack: load, inspect, run, simulate, trace, serve and deploy .rknn models";
    license = lib.licenses.asl20;
    mainProgram = "openrknn";
    platforms = lib.platforms.linux;
  };
}
