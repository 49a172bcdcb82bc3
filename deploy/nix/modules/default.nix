{
  imports = [ ./npu.nix ./services.nix ];
}
