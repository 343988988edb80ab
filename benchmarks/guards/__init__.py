"""Two versions of Placewright on the same rounds: equal plans, or none worse by more than is said.

Usage, from the root of the repository:

    python -m benchmarks.guards rounds FOLDER
    PYTHONPATH=VERSION/src python -m benchmarks.guards solve FOLDER FILE
    python -m benchmarks.guards compare BASELINE [BASELINE ...] --new FILE

`rounds` writes the rounds once. `solve` decides each of them with the version that is imported; it
uses public names only, so that versions may differ in all else. `compare` exits with 1 if plans of
golden rounds differ, or values or proofs of the others are worse.
"""
