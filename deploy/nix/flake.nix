{
  description = "openrknn: the open RKNN stack for Rockchip NPUs";

  inputs.nixpkgs.url = "github:NixOS/nixpkgs/nixos-unstable";

  outputs = { self, nixpkgs }:
    let
      systems = [ "aarch64-linux" "x86_64-linux" ];
      forAll = make: nixpkgs.lib.genAttrs systems (system: make (import nixpkgs {
        inherit system;
        overlays = [ self.overlays.default ];
        # Only these two are not free, and only who asks for them gets them.
        config.allowUnfreePredicate = package:
          builtins.elem (nixpkgs.lib.getName package) [ "rknn-runtime" "rknn-toolkit-lite2" ];
      }));
    in
    {
      overlays.default = import ./overlay.nix;

      nixosModules = {
        default = import ./modules;
        npu = import ./modules/npu.nix;
        services = import ./modules/services.nix;
      };

      packages = forAll (pkgs: {
        inherit (pkgs) openrknn openrknn-librknnrt;
        default = pkgs.openrknn;
      } // nixpkgs.lib.optionalAttrs pkgs.stdenv.hostPlatform.isAarch64 {
        inherit (pkgs) rknn-runtime;
        inherit (pkgs.python312Packages) rknn-toolkit-lite2;
      });

      # In virtual machines; they need KVM, and no board.
      checks = forAll (pkgs: import ./tests { inherit pkgs; module = self.nixosModules.default; });

      devShells = forAll (pkgs: {
        default = pkgs.mkShell {
          packages = [ pkgs.python3 pkgs.cmake pkgs.ninja pkgs.gcc ];
        };
      });
    };
}
