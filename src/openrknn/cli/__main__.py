"""`python -m openrknn.cli`, for when the `openrknn` script is not on the path."""

from openrknn.cli.main import main

raise SystemExit(main())
