"""Runs the functions of a suite one after the other and counts what failed."""

import sys
import traceback


def run(suite):
    failed = 0
    for check in suite:
        try:
            check()
            print(f"ok    {check.__name__}")
        except Exception:
            failed += 1
            print(f"FAIL  {check.__name__}")
            traceback.print_exc()
    print(f"{len(suite) - failed} of {len(suite)} passed")
    sys.exit(1 if failed else 0)


def refused(error_type, call):
    """The error that a call raises."""
    try:
        call()
    except error_type as error:
        return error
    raise AssertionError(f"no {error_type.__name__} was raised")
