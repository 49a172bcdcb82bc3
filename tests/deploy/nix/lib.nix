# A stand-in for the parts of nixpkgs' lib that our modules use, so that they can be evaluated without nixpkgs.
# It is strict where that finds mistakes: an option that nobody declared, a value of the wrong type, a conflict.
let
  inherit (builtins) all attrNames concatLists concatStringsSep elem filter foldl' isAttrs isBool isFunction isInt isList
    isPath isString listToAttrs map mapAttrs typeOf;
  isOption = value: isAttrs value && (value._type or "") == "option";
  isType = kind: value: isAttrs value && (value._type or "") == kind;

  # A value with mkIf and mkMerge becomes the list of what is left of it.
  discharge = value:
    if isType "if" value then (if value.condition then discharge value.content else [ ])
    else if isType "merge" value then concatLists (map discharge value.contents)
    else [ value ];

  # Conditions move to the leaves: which options a module sets must not depend on what they are.
  pushDown = value:
    if isType "if" value then map (mapAttrs (_: lib.mkIf value.condition)) (pushDown value.content)
    else if isType "merge" value then concatLists (map pushDown value.contents)
    else [ value ];

  one = where: values:
    let first = builtins.head values; in
    if all (value: value == first) values then first else throw "${where}: conflicting definitions";

  simple = name: check: { inherit name check; merge = one; };
  types = rec {
    str = simple "string" isString;
    bool = simple "bool" isBool;
    package = simple "package" (value: isAttrs value || isPath value || isString value);
    path = simple "path" (value: isPath value || (isString value && builtins.substring 0 1 value == "/"));
    port = simple "port" (value: isInt value && value >= 0 && value < 65536);
    ints.positive = simple "positive" (value: isInt value && value > 0);
    anything = { name = "anything"; check = _: true; merge = one; };
    lines = { name = "lines"; check = isString; merge = _: concatStringsSep "\n"; };
    enum = allowed: simple "one of ${builtins.toJSON allowed}" (value: elem value allowed);
    nullOr = inner: inner // { name = "null or ${inner.name}"; check = value: value == null || inner.check value; };
    listOf = inner: { name = "list of ${inner.name}"; check = value: isList value && all inner.check value; merge = _: concatLists; };
    coercedTo = from: change: to: to // {
      name = "${from.name} or ${to.name}";
      check = value: from.check value || to.check value;
      merge = where: values: to.merge where (map (value: if from.check value then change value else value) values);
    };
    submodule = module: {
      name = "submodule";
      check = isAttrs;
      merge = where: values: decide where module.options (concatLists (map pushDown values));
    };
    attrsOf = inner: {
      name = "attributes of ${inner.name}";
      check = isAttrs;
      merge = where: values:
        let names = attrNames (foldl' (left: right: left // right) { } values); in
        listToAttrs (map
          (name: {
            inherit name;
            value = settle "${where}.${name}" inner (concatLists (map (value: if value ? ${name} then discharge value.${name} else [ ]) values));
          })
          names);
    };
  };

  settle = where: type: values:
    let bad = filter (value: !(type.check value)) values; in
    if bad != [ ] then throw "${where}: a ${typeOf (builtins.head bad)} is not of type ${type.name}" else type.merge where values;

  # Options of all modules as one tree.
  join = foldl'
    (left: right: mapAttrs
      (name: value:
        if right ? ${name} && left ? ${name} && !(isOption left.${name}) then join [ left.${name} right.${name} ]
        else right.${name} or left.${name})
      (left // right))
    { };

  decide = where: options: defined:
    let
      undeclared = concatLists (map (value: filter (name: !(options ? ${name})) (attrNames value)) defined);
      below = name: concatLists (map (value: if value ? ${name} then [ value.${name} ] else [ ]) defined);
      result = name: option:
        let here = "${where}.${name}"; values = concatLists (map discharge (below name)); in
        if isOption option then
          (if values != [ ] then settle here option.type values
          else if option ? default then settle here option.type [ option.default ]
          else throw "${here} is used and was never set")
        else decide here option (concatLists (map pushDown (below name)));
    in
    if undeclared != [ ] then throw "${where}: there is no option ${builtins.head undeclared}" else mapAttrs result options;

  lib = {
    inherit types;
    inherit (builtins) any concatLists filter genList replaceStrings;
    mkOption = attributes: attributes // { _type = "option"; };
    mkEnableOption = text: lib.mkOption { type = types.bool; default = false; description = text; };
    mkIf = condition: content: { _type = "if"; inherit condition content; };
    mkMerge = contents: { _type = "merge"; inherit contents; };
    literalExpression = text: text;
    literalMD = text: text;
    optional = condition: value: if condition then [ value ] else [ ];
    optionals = condition: values: if condition then values else [ ];
    optionalAttrs = condition: values: if condition then values else { };
    remove = unwanted: filter (value: value != unwanted);
    genAttrs = names: make: listToAttrs (map (name: { inherit name; value = make name; }) names);
    mapAttrsToList = make: attributes: map (name: make name attributes.${name}) (attrNames attributes);
    versionAtLeast = version: oldest: builtins.compareVersions version oldest >= 0;
    versionOlder = version: limit: builtins.compareVersions version limit < 0;
    escapeShellArgs = words: concatStringsSep " " (map (word: "'${toString word}'") words);

    evalModules = { modules, specialArgs ? { } }:
      let
        load = module: if isPath module || isString module then load (import module) else
          if isFunction module then load (module (specialArgs // { inherit lib config; })) else module;
        spread = module: let loaded = load module; in [ loaded ] ++ concatLists (map spread (loaded.imports or [ ]));
        loaded = concatLists (map spread modules);
        options = join (map (module: module.options or { }) loaded);
        content = module: module.config or (removeAttrs module [ "imports" "options" ]);
        config = decide "config" options (concatLists (map (module: pushDown (content module)) loaded));
      in
      { inherit config options; };
  };
in
lib
