# The server on one machine and a client on another: TLS, token, a picture, a killed worker, an orderly end.
{ pkgs, module }:

let
  examples = ../../../examples;
  model = "efficientnet_lite0_rk3588_i8";
  # For this test only: a real key never goes into the store.
  certificate = pkgs.runCommand "openrknn-test-certificate" { nativeBuildInputs = [ pkgs.openssl ]; } ''
    mkdir $out
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 3650 -subj /CN=board \
      -addext subjectAltName=DNS:board -keyout $out/key.pem -out $out/cert.pem
  '';
  token = pkgs.writeText "openrknn-test-token" "for the test only\n";
in
{
  name = "openrknn-server";

  nodes.board = {
    imports = [ module ];
    virtualisation.memorySize = 2048;
    services.openrknn = {
      enable = true;
      host = "0.0.0.0";
      openFirewall = true;
      device = "software";
      memoryMax = "1G";
      tokenFile = token;
      tls = { certificate = "${certificate}/cert.pem"; key = "${certificate}/key.pem"; };
      models.eyes = {
        path = examples + "/models/${model}.rknn";
        labels = examples + "/models/imagenet_labels.txt";
        settings.instances = 1;
      };
      exporter.enable = true;
    };
  };

  nodes.client = {
    environment.systemPackages = [ pkgs.curl ];
    environment.etc = {
      "cert.pem".source = "${certificate}/cert.pem";
      "cat.jpg".source = examples + "/images/cat.jpg";
    };
  };

  testScript = ''
    import json

    ask = "curl --silent --show-error --cacert /etc/cert.pem "
    token = "--header 'Authorization: Bearer for the test only' "
    picture = token + "--data-binary @/etc/cat.jpg 'https://board:8000/v2/models/eyes/image?top=1'"

    start_all()
    board.wait_for_unit("openrknn.service")
    board.wait_for_open_port(8000)
    board.wait_for_open_port(8001)
    client.wait_until_succeeds(ask + "--fail https://board:8000/v2/health/ready", timeout=120)

    with subtest("nobody is let in without the token"):
        status = client.succeed(ask + "--output /dev/null --write-out '%{http_code}' https://board:8000/v2/models/eyes")
        assert status == "401", status

    with subtest("a picture is recognised"):
        answer = json.loads(client.succeed(ask + "--fail " + picture))
        assert "Egyptian cat" in json.dumps(answer), answer

    with subtest("a worker that is killed comes back"):
        board.succeed("pkill --signal KILL --newest --full openrknn.serve.worker")
        client.wait_until_succeeds(ask + "--fail " + picture, timeout=60)
        assert "openrknn_worker_restarts_total" in client.succeed(ask + token + "https://board:8000/metrics")

    with subtest("the unit sees nothing that it does not need"):
        board.fail("nsenter --target $(systemctl show --value --property MainPID openrknn) --mount -- touch /etc/x")
        exposure = board.succeed("systemd-analyze security --no-pager openrknn.service | tail -n 1")
        print(exposure)

    with subtest("the exporter answers"):
        board.wait_for_open_port(9465)
        assert "openrknn_" in board.succeed("curl --silent --fail http://127.0.0.1:9465/metrics")

    with subtest("it ends in order"):
        board.succeed("systemctl stop openrknn.service")
        board.succeed("journalctl --unit openrknn | grep drained")
        result = board.succeed("systemctl show --value --property Result openrknn.service").strip()
        assert result == "success", result
  '';
}
