"""RV1103 and RV1106."""
