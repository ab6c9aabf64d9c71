"""What schemathesis cannot make up by itself: an account that is there, and calls without a signature."""

import schemathesis
from schemathesis import GenerationMode


@schemathesis.hook
def before_call(context, case, kwargs):
    if isinstance(case.path_parameters, dict) and "account" in case.path_parameters:
        # Any other name is answered "no account of this name", and nothing behind it is asked for.
        case.path_parameters["account"] = "dev"
    if isinstance(case.query, dict) and isinstance(case.query.get("account"), str):
        case.query["account"] = "dev"
    is_right = case.meta is not None and case.meta.generation.mode == GenerationMode.POSITIVE
    if is_right and isinstance(case.body, dict) and case.operation.path.startswith("/v1/"):
        # A signed envelope is good by its signature, which no generator makes (tests/e2e does): here every call is that of the token, and
        # its arguments are what is judged.
        case.body.pop("signed", None)
