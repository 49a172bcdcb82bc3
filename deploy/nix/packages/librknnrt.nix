# openrknn's own librknnrt.so with headers, pkg-config and CMake files: free, for every machine, in the place of
# rknn-runtime.
{ lib
, runCommand
, openrknn
}:

runCommand "openrknn-librknnrt-${openrknn.version}"
{
  meta = {
    description = "Open librknnrt.so: programs for Rockchip's closed runtime run on openrknn";
    license = lib.licenses.asl20;
    platforms = lib.platforms.linux;
  };
}
  ''
    ${openrknn}/bin/openrknn library --quiet --install $out --engine ${openrknn}/bin/openrknn-engine
  ''
