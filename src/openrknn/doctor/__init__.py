"""Diagnosis of NPU problems: what was found, why it matters, and the command that fixes it.

    from openrknn import doctor
    for finding in doctor.examine():
        print(finding.severity, finding.what, *finding.fix, sep="\\n  ")

    facts       what is on the machine, collected once, below a root path
    libraries, distributions, container    parts of the facts
    checks/     one file per subject; each turns facts into findings
    fixes       udev rules, groups and modules as text; nothing is ever applied
    bundle      a zip for bug reports, with nothing private in it
"""

from __future__ import annotations

from openrknn.doctor.examine import examine
from openrknn.doctor.finding import Finding, Severity

__all__ = ["Finding", "Severity", "examine"]
