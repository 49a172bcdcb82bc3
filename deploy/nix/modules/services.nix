# services.openrknn: the server, the exporter, the device plugin.
{ config, lib, pkgs, ... }:

let
  cfg = config.services.openrknn;
  plugin = cfg.devicePlugin;
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
  stored = path: if builtins.isPath path then "${path}" else toString path;
  toml = pkgs.formats.toml { };
  # The folder of one model, as docs/serve.md describes it: the file, its labels, its model.toml.
  filesOf = name: model:
    [ { name = "${name}/1/model.rknn"; path = stored model.path; } ]
    ++ lib.optional (model.labels != null) { name = "${name}/labels.txt"; path = stored model.labels; }
    ++ lib.optional (model.settings != { }) {
      name = "${name}/model.toml";
      path = toml.generate "${name}-model.toml" model.settings;
    };
  repository = pkgs.linkFarm "openrknn-models" (lib.concatLists (lib.mapAttrsToList filesOf cfg.models));

  # Secrets reach the units through systemd, which reads them as root.
  secrets = lib.filter (secret: secret.file != null) [
    { name = "token"; option = "--token-file"; file = cfg.tokenFile; }
    { name = "certificate"; option = "--tls-cert"; file = cfg.tls.certificate; }
    { name = "key"; option = "--tls-key"; file = cfg.tls.key; }
    { name = "client-ca"; option = "--tls-client-ca"; file = cfg.tls.clientCa; }
  ];
  isLocal = cfg.host == "127.0.0.1" || cfg.host == "::1";
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
      type = types.attrsOf (types.coercedTo types.path (path: { inherit path; }) (types.submodule {
        options = {
          path = mkOption {
            type = types.path;
            description = "The .rknn file.";
          };
          labels = mkOption {
            type = types.nullOr types.path;
            default = null;
            description = "Names of its classes, one per line.";
          };
          settings = mkOption {
            type = types.attrsOf types.anything;
            default = { };
            example = { instances = 2; threshold = 0.4; };
            description = "What its model.toml says.";
          };
        };
      }));
      default = { };
      example = lib.literalExpression ''
        {
          yolo = ./yolov8n.rknn;
          street = { path = ./street.rknn; labels = ./street.txt; settings.threshold = 0.4; };
        }
      '';
      description = "Models by name: a file, or a file with labels and settings.";
    };
    modelRepository = mkOption {
      type = types.nullOr types.path;
      default = null;
      example = "/srv/models";
      description = "A folder with NAME/VERSION/model.rknn, looked at again and again.";
    };
    sources = mkOption {
      type = types.listOf types.str;
      default = [ ];
      example = [ "s3://models/board" "https://models.example/street.rknn#sha256=..." ];
      description = "Models from elsewhere; `environmentFile` has the keys.";
    };
    environmentFile = mkOption {
      type = types.nullOr types.path;
      default = null;
      example = "/run/secrets/openrknn.env";
      description = "Variables such as AWS_ACCESS_KEY_ID, read by systemd; never in the store.";
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
    tls = {
      certificate = mkOption {
        type = types.nullOr types.path;
        default = null;
        example = "/var/lib/acme/board.example/fullchain.pem";
        description = "Certificate in PEM form. The copy that the server reads is made when the unit starts.";
      };
      key = mkOption {
        type = types.nullOr types.path;
        default = null;
        description = "Its key; it may belong to root alone.";
      };
      clientCa = mkOption {
        type = types.nullOr types.path;
        default = null;
        description = "Clients must show a certificate of this authority.";
      };
    };
    memoryMax = mkOption {
      type = types.nullOr types.str;
      default = null;
      example = "1G";
      description = "The most memory that the server and its workers may have together (systemd's MemoryMax).";
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
      extraArgs = mkOption {
        type = types.listOf types.str;
        default = [ ];
        example = [ "--cdi-dir" "/run/cdi" ];
        description = "More options of `openrknn device-plugin`.";
      };
      dra = {
        enable = mkEnableOption "the DRA driver beside the device plugin (Kubernetes 1.34 and newer)";
        node = mkOption {
          type = types.str;
          default = config.networking.hostName;
          defaultText = lib.literalExpression "config.networking.hostName";
          description = "Name of this node in the cluster.";
        };
        apiServer = mkOption {
          type = types.str;
          default = "";
          example = "https://127.0.0.1:6443";
          description = "Address of the API server.";
        };
        tokenFile = mkOption {
          type = types.nullOr types.path;
          default = null;
          description = "Token of an account that may write ResourceSlices; read again whenever it changes.";
        };
        caFile = mkOption {
          type = types.nullOr types.path;
          default = null;
          description = "Certificate authority of the API server.";
        };
      };
    };
  };

  config = mkMerge [
    (mkIf cfg.enable {
      assertions = [
        {
          assertion = cfg.models != { } || cfg.modelRepository != null || cfg.sources != [ ];
          message = "services.openrknn: name models in `models`, a folder in `modelRepository`, or addresses in `sources`.";
        }
        {
          assertion = isLocal || cfg.tokenFile != null || !cfg.openFirewall;
          message = "services.openrknn: open to the network without a token; set tokenFile, or keep the firewall closed.";
        }
        {
          assertion = (cfg.tls.certificate == null) == (cfg.tls.key == null);
          message = "services.openrknn.tls: certificate and key belong together; set both.";
        }
        {
          assertion = cfg.tls.clientCa == null || cfg.tls.certificate != null;
          message = "services.openrknn.tls.clientCa: without a certificate of its own the server speaks no TLS.";
        }
      ];

      warnings = lib.optional (!isLocal && cfg.openFirewall && cfg.tls.certificate == null)
        "services.openrknn: without TLS the token and the pictures of clients cross the network in plain text; set tls.";

      networking.firewall.allowedTCPPorts = lib.optionals cfg.openFirewall [ cfg.port cfg.grpcPort ];

      systemd.services.openrknn = {
        description = "openrknn: .rknn models over REST and gRPC";
        wantedBy = [ "multi-user.target" ];
        wants = [ "network-online.target" ];
        after = [ "network-online.target" "systemd-udev-settle.service" ];
        environment = {
          OPENRKNN_STATUS = "/run/openrknn";
          # What is made once, and copies of what comes from elsewhere.
          OPENRKNN_CACHE = "/var/cache/openrknn";
        };
        serviceConfig = hardening // {
          ExecStart = lib.escapeShellArgs ([ command "serve" "--log-format" "json" ]
            ++ [ "--host" cfg.host "--port" (toString cfg.port) "--grpc-port" (toString cfg.grpcPort) ]
            ++ [ "--device" cfg.device ]
            ++ lib.optional (!cfg.ui.enable) "--no-page"
            ++ lib.optionals (cfg.modelRepository != null || cfg.sources != [ ]) [ "--poll" "10" ]
            ++ lib.concatLists (map (secret: [ secret.option "/run/credentials/openrknn.service/${secret.name}" ]) secrets)
            ++ cfg.extraArgs
            ++ lib.optional (cfg.models != { }) "${repository}"
            ++ lib.optional (cfg.modelRepository != null) (toString cfg.modelRepository)
            ++ cfg.sources);
          LoadCredential = map (secret: "${secret.name}:${toString secret.file}") secrets;
          DynamicUser = true;
          RuntimeDirectory = "openrknn";
          StateDirectory = "openrknn";
          CacheDirectory = "openrknn";
          SupplementaryGroups = [ config.hardware.rockchip.npu.group "video" ];
          DevicePolicy = "closed";
          DeviceAllow = [ "char-drm rw" "char-accel rw" "/dev/rknpu rw" "char-dma_heap rw" ];
          CapabilityBoundingSet = "";
          ProtectKernelTunables = true;
          ProtectKernelLogs = true;
          ProtectProc = "invisible";
          TimeoutStopSec = 60;
        }
        // lib.optionalAttrs (cfg.environmentFile != null) { EnvironmentFile = toString cfg.environmentFile; }
        // lib.optionalAttrs (cfg.memoryMax != null) { MemoryMax = cfg.memoryMax; };
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
      assertions = [
        {
          assertion = !plugin.dra.enable || plugin.dra.apiServer != "";
          message = "services.openrknn.devicePlugin.dra: outside of a pod the driver needs apiServer, tokenFile and caFile.";
        }
      ];

      systemd.services.openrknn-device-plugin = {
        description = "openrknn: NPUs for Kubernetes";
        wantedBy = [ "multi-user.target" ];
        after = [ "kubelet.service" "k3s.service" "k3s-agent.service" ];
        serviceConfig = hardening // {
          ExecStart = lib.escapeShellArgs ([ command "device-plugin" "--resource" plugin.resourceName ]
            ++ [ "--strategy" plugin.strategy "--metrics-port" (toString plugin.metricsPort) ]
            ++ lib.optionals (plugin.shares != null) [ "--shares" (toString plugin.shares) ]
            ++ lib.optionals plugin.dra.enable [ "--dra" "--node" plugin.dra.node "--api-server" plugin.dra.apiServer ]
            ++ lib.optionals (plugin.dra.tokenFile != null) [ "--token-file" (toString plugin.dra.tokenFile) ]
            ++ lib.optionals (plugin.dra.caFile != null) [ "--ca-file" (toString plugin.dra.caFile) ]
            ++ plugin.extraArgs);
          CapabilityBoundingSet = [ "CAP_DAC_READ_SEARCH" "CAP_SYSLOG" ];
          ReadWritePaths = [ "-/var/lib/kubelet/device-plugins" "-/run/cdi" ]
            ++ lib.optionals plugin.dra.enable [ "-/var/lib/kubelet/plugins" "-/var/lib/kubelet/plugins_registry" ];
          ProtectKernelTunables = true;
          Restart = "always";
        };
      };
    })
  ];
}
