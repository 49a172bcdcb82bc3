"""Facts of the C API: functions, structs, enumerations, flags, error codes, and which chip and version has them."""
