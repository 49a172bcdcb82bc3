"""int8 on trained networks: plain min-max, the default, and `--accuracy-drop`."""
