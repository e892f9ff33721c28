#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""usage: compare.py lines|clpeak|clinfo PREFIX NATIVE TELPHER [NATIVE-NAME SERVERS]

Compares what a program printed on the native driver (file NATIVE) with what it printed through Telpher (file
TELPHER). Prints "passed: PREFIX ..." or "failed: PREFIX ...: why" for each check.

lines: each line is a check, "NAME: RESULT", equal on both sides and without the word WRONG.
clpeak: its figures differ by nature; on both sides the same tests must have one.
clinfo: output of clinfo --raw; each of the SERVERS shows the devices of the native platform NATIVE-NAME, with
properties that are equal save those in DIFFERS below."""
import re
import sys

ABSENT = object()  # clinfo does not print it


class Without(str):
    """Some of the native driver's words, in whatever order; those that lack have a name that fits this pattern."""


class Added(str):
    """An answer where the native driver has none: words that fit this pattern."""


# Values of Telpher that differ from the driver's: a pattern for the value, and the reason. The sections are
# those of docs/opencl-conformance.md. Values equal with PoCL may differ with drivers that have more features.
OURS = "1.4: platform and its version are those of our calls"
EXTENSIONS = (Without(r"cl_khr_(spir|gl_\w+|d3d\w+|dx9_\w+|egl_\w+)|cl_(?!khr_|ext_)\w+"),
              "1.4, 1.5: only extensions that need nothing but the kernel language or answered queries")
# The extension that drivers with shared virtual memory gain, as 1.6 lists it.
GAINED = {"cl_intel_unified_shared_memory", "cl_intel_unified_shared_memory:0x400000"}
IL = (Without(r"(?!SPIR-V)\S+"), "1.5: programs in no other language than SPIR-V")
DIFFERS = {
    "CL_PLATFORM_NAME": ("Telpher", OURS),
    "CL_PLATFORM_VENDOR": ("Telpher", OURS),
    "CL_PLATFORM_VERSION": (r"OpenCL 3\.0 Telpher \S+", OURS),
    "CL_PLATFORM_NUMERIC_VERSION": ("0xc00000", OURS),
    "CL_PLATFORM_ICD_SUFFIX_KHR": ("TELPHER", "1.1: the suffix is ours"),
    "CL_PLATFORM_EXTENSIONS": EXTENSIONS,
    "CL_PLATFORM_EXTENSIONS_WITH_VERSION": EXTENSIONS,
    "CL_DEVICE_EXTENSIONS": EXTENSIONS,
    "CL_DEVICE_EXTENSIONS_WITH_VERSION": EXTENSIONS,
    "CL_PLATFORM_HOST_TIMER_RESOLUTION": ("0", "1.5: timers only where every device's driver has them"),
    "CL_DEVICE_SPIR_VERSIONS": (ABSENT, "1.5: no programs in SPIR"),
    "CL_DEVICE_IL_VERSION": IL,
    "CL_DEVICE_ILS_WITH_VERSION": IL,
    "CL_DEVICE_OPENCL_C_FEATURES": (
        Without("__opencl_c_(device_enqueue|atomic_scope_all_devices)"),
        "1.5: features of what is denied are left out"),
    "CL_DEVICE_LATEST_CONFORMANCE_VERSION_PASSED": ("v0000-00-00-00", "1.4: never submitted with Telpher"),
    "CL_DEVICE_HOST_UNIFIED_MEMORY": ("CL_FALSE", "1.5: the host's memory is on another machine"),
    "CL_DEVICE_SVM_CAPABILITIES": (
        Without(r"CL_DEVICE_SVM_(FINE_GRAIN_\w+|ATOMICS)"), "1.5: coarse grain over a network"),
    "CL_DEVICE_ATOMIC_MEMORY_CAPABILITIES": (
        Without("CL_DEVICE_ATOMIC_SCOPE_ALL_DEVICES"), "1.5: no atomics across devices"),
    **dict.fromkeys(
        [f"CL_DEVICE_{kind}_MEM_CAPABILITIES_INTEL" for kind in (
            "HOST", "DEVICE", "SINGLE_DEVICE_SHARED", "CROSS_DEVICE_SHARED", "SHARED_SYSTEM")],
        (Added(r"CL_UNIFIED_SHARED_MEMORY_\w+"), "1.6: unified shared memory stands on shared virtual memory")),
    "CL_DEVICE_DEVICE_ENQUEUE_CAPABILITIES": ("", "1.5: no queues on the device"),
    "CL_DEVICE_EXECUTION_CAPABILITIES": ("CL_EXEC_KERNEL", "1.5: no native kernels"),
}


def read_lines(text, _name):
    """{"device 0, sgemm": "right DIGEST"}"""
    parts = (line.rpartition(": ") for line in text.splitlines())
    return {name: result for name, colon, result in parts if colon}


def equal(name, native, telpher):
    if native != telpher:
        return f"natively {native!r}, through Telpher {telpher!r}"
    return "wrong on both sides" if "WRONG" in native else ""


def read_clpeak(text, _name):
    """{"device 0, Transfer bandwidth (GBPS), enqueueReadBuffer": "a figure"}"""
    found, device, section = {}, -1, ""
    for line in text.splitlines():
        name, colon, value = (part.strip() for part in line.partition(":"))
        if line.strip().startswith("Device:"):
            device += 1
        elif device >= 0 and line.strip() and not colon:
            section = name + ", "
        elif re.fullmatch(r"[0-9.]+( us)?", value) and name != "Compute units" and float(value.split()[0]) > 0:
            found[f"device {device}, {'' if value.endswith('us') else section}{name}"] = "a figure"
    return found


def read_clinfo(text, platform_name):
    """{"platform": {property: value}, "device 0": …} of the platform that is called so."""
    parts, suffix, block = {}, None, {}
    for line in text.splitlines():
        match = re.fullmatch(r"(\[(\w+)/([0-9*]+)\])?\s*((?:CL|#)\w+)\s*(.*)", line)
        if not match:
            continue
        _, owner, number, name, value = match.groups()
        if owner is None:
            block = {} if name == "CL_PLATFORM_NAME" else block
            block[name] = " ".join(value.split())
            if name == "CL_PLATFORM_ICD_SUFFIX_KHR" and platform_name in block.get("CL_PLATFORM_NAME", ""):
                suffix, parts["platform"] = value.strip(), block
        elif owner == suffix and number != "*":
            parts.setdefault(f"device {number}", {})[name] = " ".join(value.split())
    return parts


def words_of(text):
    return set((text or "").replace(" | ", " ").split())


def may_lack(pattern, native, telpher, more_words):
    """Whether Telpher's words are the native driver's, or of more_words, and what lacks may lack."""
    here, there = words_of(native), words_of(telpher)
    return there <= here | more_words and all(re.match(f"({pattern})(:|$)", word) for word in here - there)


def allowed(name, native, telpher, words):
    """Whether DIFFERS covers that Telpher says so."""
    pattern, _ = DIFFERS.get(name, (None, None))
    if pattern is ABSENT or telpher is None:
        return pattern is ABSENT and telpher is None
    if isinstance(pattern, Added):
        return native is None and all(re.fullmatch(pattern, word) for word in words_of(telpher))
    if isinstance(pattern, Without):
        return may_lack(pattern, native, telpher, words | (GAINED if pattern is EXTENSIONS[0] else set()))
    return pattern is not None and re.fullmatch(pattern, telpher) is not None


def unexplained(native, telpher, more_words):
    """Differences that nothing in DIFFERS explains, as text; and how many are explained."""
    wrong, explained = [], 0
    for name in dict.fromkeys([*native, *telpher]):
        here, there = native.get(name), telpher.get(name)
        if here == there:
            continue
        if allowed(name, here, there, more_words):
            explained += 1
        else:
            wrong.append(f"{name}: natively {here!r}, through Telpher {there!r}")
    return wrong, explained


def compare_part(prefix, part, native, telpher, more_words):
    wrong, explained = unexplained(native, telpher, more_words)
    same = len(native.keys() | telpher.keys()) - explained - len(wrong)
    return report(prefix, f"{part} ({same} properties equal, {explained} differ as documented)", "; ".join(wrong))


def platform_words(device):
    """What our platform may have for extensions that the native one does not: its device's, and cl_khr_icd."""
    names = {"cl_khr_icd", *device["CL_DEVICE_EXTENSIONS"].split()}
    versions = device.get("CL_DEVICE_EXTENSIONS_WITH_VERSION", "").split()  # none before OpenCL 3.0
    known = {word.partition(":")[0] for word in versions}
    return names | set(versions) | {f"{name}:0x400000" for name in names - known}


def compare_clinfo(prefix, native, telpher, servers):
    here, there = len(native) - 1, len(telpher) - 1  # one part is the platform
    if here < 1 or there != here * servers:
        return report(prefix, "devices", f"{here} natively, {there} on {servers} servers")
    ok = compare_part(prefix, "platform", native["platform"], telpher["platform"], platform_words(native["device 0"]))
    for number in range(there):
        ok &= compare_part(prefix, f"device {number}", native[f"device {number % here}"], telpher[f"device {number}"],
                           set())
    return ok


def report(prefix, name, why):
    print(f"failed: {prefix} {name}: {why}" if why else f"passed: {prefix} {name}")
    return not why


def compare(prefix, native, telpher):
    if not native:
        return report(prefix, "anything", "the program printed no check on the native driver")
    return all([report(prefix, name, equal(name, native.get(name, "nothing"), telpher.get(name, "nothing")))
                for name in dict.fromkeys([*native, *telpher])])


def main(form, prefix, native_file, telpher_file, native_name="", servers="1"):
    read = {"lines": read_lines, "clpeak": read_clpeak, "clinfo": read_clinfo}[form]
    with open(native_file, encoding="utf-8") as native, open(telpher_file, encoding="utf-8") as telpher:
        sides = read(native.read(), native_name), read(telpher.read(), "Telpher")
    if form == "clinfo":
        return 0 if compare_clinfo(prefix, *sides, int(servers)) else 1
    return 0 if compare(prefix, *sides) else 1


if __name__ == "__main__":
    if len(sys.argv) not in (5, 7) or sys.argv[1] not in ("lines", "clpeak", "clinfo"):
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
