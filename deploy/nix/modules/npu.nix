# hardware.rockchip.npu: driver, permissions, clock, a library for C programs, CDI.
{ config, lib, pkgs, ... }:

let
  cfg = config.hardware.rockchip.npu;
  inherit (lib) mkEnableOption mkIf mkMerge mkOption optional types;

  version = config.boot.kernelPackages.kernel.version;
  # Rocket is in Linux since 6.18. "auto" takes it there, on the one chip that it serves.
  hasRocket = lib.versionAtLeast version "6.18";
  # rknpu is in the vendor's kernels (5.10 and 6.1) and in no other; elsewhere it comes as a package or not at all.
  hasRknpu = cfg.modulePackage != null
    || lib.any (series: lib.versionAtLeast version series && lib.versionOlder version "${series}.9999") [ "5.10" "6.1" ];
  driver =
    if cfg.driver != "auto" then cfg.driver
    else if hasRocket && (cfg.soc == null || cfg.soc == "rk3588") then "rocket"
    else if hasRknpu then "rknpu"
    else "none";

  udevRules = builtins.readFile ../../udev/70-openrknn-npu.rules;
  rules = lib.replaceStrings [ ''GROUP="render"'' ] [ ''GROUP="${cfg.group}"'' ] udevRules;
in
{
  options.hardware.rockchip.npu = {
    enable = mkEnableOption "the NPU of Rockchip chips";

    driver = mkOption {
      type = types.enum [ "auto" "rknpu" "rocket" "none" ];
      default = "auto";
      description = ''
        Which kernel driver: the vendor's (`rknpu`), that of mainline Linux since 6.18 (`rocket`, RK3588 only),
        `auto` (rocket where the kernel has it, rknpu with the vendor's kernels or a `modulePackage`, else
        none, with a warning), or `none` to leave modules alone. The vendor's library works with
        rknpu only; openrknn works with both.
      '';
    };

    soc = mkOption {
      type = types.nullOr (types.enum [ "rk3562" "rk3566" "rk3568" "rk3576" "rk3588" ]);
      default = null;
      description = "The chip, if you want it checked.";
    };

    modulePackage = mkOption {
      type = types.nullOr types.package;
      default = null;
      description = "A package with the module rknpu for a kernel that does not have it.";
    };

    group = mkOption {
      type = types.str;
      default = "render";
      description = "Members of this group may use the NPU.";
    };

    users = mkOption {
      type = types.listOf types.str;
      default = [ ];
      example = [ "alice" ];
      description = "Users that become members of the group.";
    };

    initrd = mkOption {
      type = types.bool;
      default = driver == "rocket";
      defaultText = lib.literalMD "true with rocket";
      description = ''
        Load the driver in the initrd. A module that comes later may find the NPU's supply switched off
        (`vdd_npu_s0: disabling`).
      '';
    };

    governor = mkOption {
      type = types.nullOr types.str;
      default = null;
      example = "performance";
      description = "Governor of the NPU's clock (devfreq; rknpu only).";
    };

    vendorRuntime = {
      enable = mkEnableOption "the vendor's proprietary librknnrt.so (unfree, rknpu only)";
      package = mkOption {
        type = types.package;
        default = pkgs.rknn-runtime;
        defaultText = lib.literalExpression "pkgs.rknn-runtime";
        description = "The package with librknnrt.so.";
      };
    };

    openRuntime = {
      enable = mkEnableOption "openrknn's own librknnrt.so, in the place of the vendor's (free; rknpu and rocket)";
      package = mkOption {
        type = types.package;
        default = pkgs.openrknn-librknnrt;
        defaultText = lib.literalExpression "pkgs.openrknn-librknnrt";
        description = "The package with librknnrt.so and its headers.";
      };
    };

    cdi = {
      enable = mkEnableOption "a CDI file for container runtimes";
      specDir = mkOption {
        type = types.path;
        default = "/var/run/cdi";
        description = "Where the file goes; Podman, containerd and CRI-O look into /etc/cdi and /var/run/cdi.";
      };
    };

    package = mkOption {
      type = types.package;
      default = pkgs.openrknn;
      defaultText = lib.literalExpression "pkgs.openrknn";
      description = "openrknn itself.";
    };
  };

  config = mkIf cfg.enable (mkMerge [
    {
      assertions = [
        {
          assertion = pkgs.stdenv.hostPlatform.isAarch64;
          message = "hardware.rockchip.npu: Rockchip's NPUs are in 64-bit Arm chips; this is another processor.";
        }
        {
          assertion = driver != "rocket" || hasRocket;
          message = "hardware.rockchip.npu.driver = \"rocket\" needs Linux 6.18 or newer (boot.kernelPackages).";
        }
        {
          assertion = driver != "rocket" || cfg.soc == null || cfg.soc == "rk3588";
          message = "hardware.rockchip.npu.driver = \"rocket\" serves RK3588 only; use \"rknpu\" on ${toString cfg.soc}.";
        }
        {
          assertion = !cfg.vendorRuntime.enable || driver == "rknpu";
          message = "hardware.rockchip.npu.vendorRuntime: librknnrt.so cannot use ${driver}; openrknn can, and so can openRuntime.";
        }
        {
          assertion = !(cfg.vendorRuntime.enable && cfg.openRuntime.enable);
          message = "hardware.rockchip.npu: vendorRuntime and openRuntime are two files of one name; enable one of them.";
        }
        {
          assertion = cfg.governor == null || driver == "rknpu";
          message = "hardware.rockchip.npu.governor: only rknpu has a clock that can be set.";
        }
      ];

      warnings = optional (cfg.driver == "auto" && driver == "none")
        "hardware.rockchip.npu: Linux ${version} has no driver for this NPU; use 6.18 or newer (RK3588), the vendor's kernel, or modulePackage. openrknn computes on the processor until then.";

      environment.systemPackages = [ cfg.package ];
      users.groups.${cfg.group} = { };
      users.users = lib.genAttrs cfg.users (_: { extraGroups = [ cfg.group ]; });
      services.udev.extraRules = rules;
      boot.extraModulePackages = optional (cfg.modulePackage != null) cfg.modulePackage;
      # Two drivers for one NPU: whoever comes first has it.
      boot.blacklistedKernelModules = lib.optionals (driver != "none") (lib.remove driver [ "rknpu" "rocket" ]);
    }

    (mkIf (driver != "none") {
      boot.kernelModules = [ driver ];
      boot.initrd.kernelModules = optional cfg.initrd driver;
    })

    (mkIf (cfg.governor != null) {
      services.udev.extraRules = ''
        SUBSYSTEM=="devfreq", KERNEL=="*.npu", ATTR{governor}="${cfg.governor}"
      '';
    })

    (mkIf cfg.vendorRuntime.enable {
      environment.systemPackages = [ cfg.vendorRuntime.package ];
      environment.sessionVariables.OPENRKNN_LIBRARY = "${cfg.vendorRuntime.package}/lib/librknnrt.so";
    })

    (mkIf cfg.openRuntime.enable {
      environment.systemPackages = [ cfg.openRuntime.package ];
      # Programs that load "librknnrt.so" without a path; those from nixpkgs name it in their run path.
      environment.sessionVariables.LD_LIBRARY_PATH = [ "${cfg.openRuntime.package}/lib" ];
    })

    (mkIf cfg.cdi.enable {
      systemd.services.openrknn-cdi = {
        description = "openrknn: CDI file for the NPU";
        wantedBy = [ "multi-user.target" ];
        after = [ "systemd-udev-settle.service" ];
        serviceConfig = {
          Type = "oneshot";
          RemainAfterExit = true;
          ExecStart = "${cfg.package}/bin/openrknn cdi generate --output ${toString cfg.cdi.specDir}/rockchip.com-npu.json";
        };
      };
    })
  ]);
}
