# services.openrknn: the server, the exporter, the device plugin.
{ config, lib, pkgs, ... }:

let
  cfg = config.services.openrknn;
  inherit (lib) mkEnableOption mkIf mkMerge mkOption types;
  command = "${cfg.package}/bin/openrknn";

  port = default: description: mkOption {
    type = types.port;
    inherit default description;
  };

  # What all units have in common; each adds what it needs.
  hardening = {
    NoNewPrivileges = true;
    ProtectSystem = "strict";
    ProtectHome = true;
    PrivateTmp = true;
    ProtectClock = true;
    ProtectHostname = true;
    ProtectKernelModules = true;
    ProtectControlGroups = true;
    RestrictAddressFamilies = [ "AF_INET" "AF_INET6" "AF_UNIX" ];
    RestrictNamespaces = true;
    RestrictRealtime = true;
    RestrictSUIDSGID = true;
    LockPersonality = true;
    SystemCallArchitectures = "native";
    SystemCallFilter = [ "@system-service" ];
    UMask = "0077";
    Restart = "on-failure";
    RestartSec = 2;
  };

  # "${path}" copies a file of the configuration into the store, so that it belongs to the system's closure; toString
  # would keep the path of the machine that built it.
  stored = model: if builtins.isPath model then "${model}" else toString model;
  models = lib.mapAttrsToList (name: model: { inherit name; path = stored model; }) cfg.models;
  repository = pkgs.linkFarm "openrknn-models"
    (map (model: { name = "${model.name}/1/model.rknn"; inherit (model) path; }) models);
in
{
  options.services.openrknn = {
    enable = mkEnableOption "the openrknn inference server (REST, gRPC, web page)";

    package = mkOption {
      type = types.package;
      default = pkgs.openrknn;
      defaultText = lib.literalExpression "pkgs.openrknn";
      description = "openrknn itself.";
    };

    host = mkOption {
      type = types.str;
      default = "127.0.0.1";
      description = "Address to listen on.";
    };
    port = port 8000 "Port of REST and the web page.";
    grpcPort = port 8001 "Port of gRPC.";
    openFirewall = mkEnableOption "both ports in the firewall";

    models = mkOption {
      type = types.attrsOf types.path;
      default = { };
      example = lib.literalExpression "{ yolo = ./yolov8n.rknn; }";
      description = "Models by name.";
    };
    modelRepository = mkOption {
      type = types.nullOr types.path;
      default = null;
      example = "/srv/models";
      description = "A folder with NAME/VERSION/model.rknn, looked at again and again.";
    };
    device = mkOption {
      type = types.str;
      default = "auto";
      description = "auto, software, rknpu or rocket.";
    };
    tokenFile = mkOption {
      type = types.nullOr types.path;
      default = null;
      description = "Clients must know the text of this file. It is read by systemd, so it may belong to root alone.";
    };
    ui.enable = mkOption {
      type = types.bool;
      default = true;
      description = "The web page.";
    };
    extraArgs = mkOption {
      type = types.listOf types.str;
      default = [ ];
      example = [ "--queue" "128" ];
      description = "More options of `openrknn serve`.";
    };

    exporter = {
      enable = mkEnableOption "metrics of the NPU for Prometheus, on boards without the server";
      host = mkOption {
        type = types.str;
        default = "127.0.0.1";
        description = "Address to listen on.";
      };
      port = port 9465 "Port of /metrics.";
    };

    devicePlugin = {
      enable = mkEnableOption "the Kubernetes device plugin on this node (k3s works too)";
      resourceName = mkOption {
        type = types.str;
        default = "rockchip.com/npu";
        description = "What pods ask for.";
      };
      strategy = mkOption {
        type = types.enum [ "shares" "cores" ];
        default = "shares";
        description = "Whole NPUs for several pods, or one core each.";
      };
      shares = mkOption {
        type = types.nullOr types.ints.positive;
        default = null;
        description = "Pods per NPU; null decides by the driver.";
      };
      metricsPort = port 9466 "Port of its metrics.";
    };
  };

  config = mkMerge [
    (mkIf cfg.enable {
      assertions = [
        {
          assertion = cfg.models != { } || cfg.modelRepository != null;
          message = "services.openrknn: name models in `models`, or a folder in `modelRepository`.";
        }
        {
          assertion = cfg.host == "127.0.0.1" || cfg.host == "::1" || cfg.tokenFile != null || !cfg.openFirewall;
          message = "services.openrknn: open to the network without a token; set tokenFile, or keep the firewall closed.";
        }
      ];

      networking.firewall.allowedTCPPorts = lib.optionals cfg.openFirewall [ cfg.port cfg.grpcPort ];

      systemd.services.openrknn = {
        description = "openrknn: .rknn models over REST and gRPC";
        wantedBy = [ "multi-user.target" ];
        wants = [ "network-online.target" ];
        after = [ "network-online.target" "systemd-udev-settle.service" ];
        environment.OPENRKNN_STATUS = "/run/openrknn";
        serviceConfig = hardening // {
          ExecStart = lib.escapeShellArgs ([ command "serve" "--log-format" "json" ]
            ++ [ "--host" cfg.host "--port" (toString cfg.port) "--grpc-port" (toString cfg.grpcPort) ]
            ++ [ "--device" cfg.device ]
            ++ lib.optional (!cfg.ui.enable) "--no-page"
            ++ lib.optionals (cfg.modelRepository != null) [ "--poll" "10" ]
            ++ lib.optionals (cfg.tokenFile != null) [ "--token-file" "/run/credentials/openrknn.service/token" ]
            ++ cfg.extraArgs
            ++ lib.optional (cfg.models != { }) "${repository}"
            ++ lib.optional (cfg.modelRepository != null) (toString cfg.modelRepository));
          LoadCredential = lib.optional (cfg.tokenFile != null) "token:${toString cfg.tokenFile}";
          DynamicUser = true;
          RuntimeDirectory = "openrknn";
          StateDirectory = "openrknn";
          SupplementaryGroups = [ config.hardware.rockchip.npu.group "video" ];
          DevicePolicy = "closed";
          DeviceAllow = [ "char-drm rw" "char-accel rw" "/dev/rknpu rw" "char-dma_heap rw" ];
          CapabilityBoundingSet = "";
          ProtectKernelTunables = true;
          ProtectKernelLogs = true;
          ProtectProc = "invisible";
          TimeoutStopSec = 60;
        };
      };
    })

    (mkIf cfg.exporter.enable {
      systemd.services.openrknn-exporter = {
        description = "openrknn: load, clock and temperature of the NPU for Prometheus";
        wantedBy = [ "multi-user.target" ];
        after = [ "network.target" ];
        serviceConfig = hardening // {
          ExecStart = lib.escapeShellArgs
            [ command "exporter" "--host" cfg.exporter.host "--port" (toString cfg.exporter.port) ];
          # Root: the load of rknpu is in debugfs.
          CapabilityBoundingSet = [ "CAP_DAC_READ_SEARCH" "CAP_SYS_PTRACE" ];
          PrivateDevices = true;
          ProtectKernelLogs = true;
        };
      };
    })

    (mkIf cfg.devicePlugin.enable {
      systemd.services.openrknn-device-plugin = {
        description = "openrknn: NPUs for Kubernetes";
        wantedBy = [ "multi-user.target" ];
        after = [ "kubelet.service" "k3s.service" ];
        serviceConfig = hardening // {
          ExecStart = lib.escapeShellArgs ([ command "device-plugin" "--resource" cfg.devicePlugin.resourceName ]
            ++ [ "--strategy" cfg.devicePlugin.strategy "--metrics-port" (toString cfg.devicePlugin.metricsPort) ]
            ++ lib.optionals (cfg.devicePlugin.shares != null) [ "--shares" (toString cfg.devicePlugin.shares) ]);
          CapabilityBoundingSet = [ "CAP_DAC_READ_SEARCH" "CAP_SYSLOG" ];
          ReadWritePaths = [ "-/var/lib/kubelet/device-plugins" "-/run/cdi" ];
          ProtectKernelTunables = true;
          Restart = "always";
        };
      };
    })
  ];
}
