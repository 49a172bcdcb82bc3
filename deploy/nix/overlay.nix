final: prev: {
  openrknn = final.callPackage ./packages/openrknn.nix { };

  # The open library for programs that were written for the vendor's.
  openrknn-librknnrt = final.callPackage ./packages/librknnrt.nix { };

  # The vendor's library: not free, for boards only, and not needed by openrknn.
  rknn-runtime = final.callPackage ./packages/rknn-runtime.nix { };

  pythonPackagesExtensions = (prev.pythonPackagesExtensions or [ ]) ++ [
    (pythonFinal: pythonPrev: {
      rknn-toolkit-lite2 = pythonFinal.callPackage ./packages/rknn-toolkit-lite2.nix { };
    })
  ];
}
