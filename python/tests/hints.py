# SPDX-License-Identifier: Apache-2.0
"""Each public call has a docstring, and hints for all of its arguments and its result. Prints "hints: OK"."""
import inspect

import telpher
import telpher.mdr

OF_THE_LIBRARY = ("charm", "Reducer", "Memory", "Request")  # programs do not call their constructors


def look(name, call):
    call = call.fget if isinstance(call, property) else call
    if not inspect.isfunction(call):
        return
    signature, makes = inspect.signature(call), name.endswith("__init__")
    bare = [p.name for p in signature.parameters.values() if p.name != "self" and p.annotation is p.empty]
    if signature.return_annotation is signature.empty and not makes:
        bare.append("the result")
    if not makes and not inspect.getdoc(call):
        bare.append("the docstring")
    if bare:
        raise AssertionError(f"{name}{signature} lacks {', '.join(bare)}")


for module in telpher, telpher.mdr:
    for public in module.__all__:
        value = getattr(module, public)
        is_instance = public in ("charm", "Reducer")
        if not inspect.isclass(value) and not is_instance:
            look(public, value)
            continue
        for attribute, member in vars(type(value) if is_instance else value).items():
            if not attribute.startswith("_") or attribute == "__init__" and public not in OF_THE_LIBRARY:
                look(f"{public}.{attribute}", member)
print("hints: OK")
