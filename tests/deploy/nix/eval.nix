# Evaluates our modules with a configuration; the rest of NixOS is a handful of declared options.
{ libPath ? ./lib.nix, configuration ? { }, system ? "aarch64-linux", kernel ? "6.18.2", vm ? null }:
let
  lib = import libPath;
  pkgs = {
    formats.toml = _: { generate = name: value: "/nix/store/${name}-${builtins.toJSON value}"; };
    # The tests in virtual machines are taken as they are written; nothing of them is built here.
    testers.runNixOSTest = test: test;
    runCommand = name: _: _: "/nix/store/${name}";
    writeText = name: _: "/nix/store/${name}";
    openssl = "openssl";
    curl = { outPath = "/nix/store/curl"; type = "derivation"; };
    stdenv.hostPlatform.isAarch64 = system == "aarch64-linux";
    openrknn = { outPath = "/nix/store/openrknn"; type = "derivation"; };
    openrknn-librknnrt = { outPath = "/nix/store/openrknn-librknnrt"; type = "derivation"; };
    rknn-runtime = { outPath = "/nix/store/rknn-runtime"; type = "derivation"; };
    # With the paths, so that their context is seen.
    linkFarm = name: entries: "/nix/store/${name}-" + builtins.concatStringsSep "+" (map (entry: "${entry.name}=${entry.path}") entries);
  };
  list = lib.mkOption { type = lib.types.listOf lib.types.anything; default = [ ]; };
  attributes = type: lib.mkOption { type = lib.types.attrsOf type; default = { }; };
  stubs = {
    options = {
      assertions = list;
      warnings = list;
      boot.kernelModules = list;
      boot.initrd.kernelModules = list;
      boot.blacklistedKernelModules = list;
      boot.extraModulePackages = list;
      boot.kernelPackages = lib.mkOption { type = lib.types.anything; default = { kernel.version = kernel; }; };
      environment.systemPackages = list;
      environment.sessionVariables = attributes lib.types.anything;
      environment.etc = attributes lib.types.anything;
      networking.firewall.allowedTCPPorts = list;
      networking.hostName = lib.mkOption { type = lib.types.str; default = "board1"; };
      services.k3s = attributes lib.types.anything;
      virtualisation = attributes lib.types.anything;
      services.udev.extraRules = lib.mkOption { type = lib.types.lines; default = ""; };
      systemd.services = attributes lib.types.anything;
      users.groups = attributes lib.types.anything;
      users.users = attributes lib.types.anything;
    };
  };
  evaluated = configuration: summary (lib.evalModules {
    modules = [ stubs ../../../deploy/nix/modules { config = configuration; } ];
    specialArgs = { inherit pkgs; };
  }).config;
  summary = config: {
    failed = map (one: one.message) (builtins.filter (one: !one.assertion) config.assertions);
    inherit (config) warnings;
    inherit (config.boot) kernelModules blacklistedKernelModules;
    initrd = config.boot.initrd.kernelModules;
    rules = config.services.udev.extraRules;
    variables = config.environment.sessionVariables;
    ports = config.networking.firewall.allowedTCPPorts;
    packages = map toString config.environment.systemPackages;
    groups = builtins.attrNames config.users.groups;
    users = config.users.users;
    services = builtins.mapAttrs
      (name: unit: unit.serviceConfig // { inherit (unit) wantedBy; environment = unit.environment or { }; })
      config.systemd.services;
  };
  tests = import ../../../deploy/nix/tests { inherit pkgs; module = { }; };
  # A node says which modules it imports; here they are there already.
  node = configuration: evaluated (removeAttrs configuration [ "imports" ]);
in
if vm == null then evaluated configuration
else {
  script = tests.${vm}.testScript;
  nodes = builtins.mapAttrs (name: node) tests.${vm}.nodes;
}
