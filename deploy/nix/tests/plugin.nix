# k3s with the device plugin: the node offers software NPUs, also after k3s was started again and the plugin killed.
{ pkgs, module }:

{
  name = "openrknn-plugin";

  nodes.node = {
    imports = [ module ];
    virtualisation = { memorySize = 3072; diskSize = 8192; cores = 2; };
    services.k3s = {
      enable = true;
      role = "server";
      extraFlags = [ "--disable=traefik,servicelb,metrics-server,local-storage,coredns" ];
    };
    services.openrknn.devicePlugin = {
      enable = true;
      extraArgs = [ "--software" "2" ];
    };
  };

  testScript = ''
    count = "k3s kubectl get nodes -o jsonpath='{.items[0].status.allocatable.rockchip\\.com/npu}'"

    def offers(number):
        node.wait_until_succeeds(f"test \"$({count})\" = {number}", timeout=300)

    node.wait_for_unit("k3s.service")
    node.wait_for_unit("openrknn-device-plugin.service")

    with subtest("the node offers two software NPUs"):
        offers(2)

    with subtest("a kubelet that starts again is told again"):
        node.succeed("systemctl restart k3s.service")
        offers(2)

    with subtest("a plugin that is killed comes back"):
        node.succeed("systemctl kill --signal KILL openrknn-device-plugin.service")
        node.wait_for_unit("openrknn-device-plugin.service")
        offers(2)

    with subtest("its metrics answer"):
        node.wait_for_open_port(9466)
        assert "openrknn_" in node.succeed("curl --silent --fail http://127.0.0.1:9466/metrics")
  '';
}
