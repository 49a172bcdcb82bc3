# Evaluates our modules with a configuration; the rest of NixOS is a handful of declared options.
{ libPath ? ./lib.nix, configuration, system ? "aarch64-linux", kernel ? "6.18.2" }:
let
  lib = import libPath;
  pkgs = {
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
      networking.firewall.allowedTCPPorts = list;
      services.udev.extraRules = lib.mkOption { type = lib.types.lines; default = ""; };
      systemd.services = attributes lib.types.anything;
      users.groups = attributes lib.types.anything;
      users.users = attributes lib.types.anything;
    };
  };
  result = lib.evalModules {
    modules = [ stubs ../../../deploy/nix/modules { config = configuration; } ];
    specialArgs = { inherit pkgs; };
  };
  config = result.config;
in
{
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
  services = builtins.mapAttrs (name: unit: unit.serviceConfig // { inherit (unit) wantedBy; }) config.systemd.services;
}
