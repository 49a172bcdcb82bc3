# Tests in virtual machines, for those who have KVM: `nix flake check` or `nix build .#checks.x86_64-linux.server`.
# The software NPU computes: no board is needed, and any processor will do.
{ pkgs, module }:

builtins.mapAttrs (name: test: pkgs.testers.runNixOSTest (import test { inherit pkgs module; })) {
  server = ./server.nix;
  plugin = ./plugin.nix;
}
