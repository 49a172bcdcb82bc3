"""From sizes and numbers to registers in natural values, one file per kind of task."""
