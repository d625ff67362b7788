"""The build hook compiles the engine into the wheel, so that its users neither wait for it nor need a compiler.

numba translates the functions as it does on first use, without optimising them; LLVM optimises them for each kind of
processor and writes an object, which the C compiler links. This happens where wheels are built on Linux with a C
compiler, and not with SENSORMEND_COMPILE=0; other wheels, and editable installs, compile on first use.

    python hatch_build.py FOLDER        the same, into any folder
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).resolve().parent
BUILT = Path("sensormend/model/built")
NEEDED = ["numba>=0.61", "numpy>=2.1", "scipy>=1.13"]
"""To take a small network through the engine, which shows with what types its functions are called."""

ENVIRONMENT = {
    # What is cached was optimised for this machine; these functions are not yet optimised.
    "NUMBA_OPT": "0",
    "NUMBA_CPU_NAME": "generic",
    "NUMBA_CPU_FEATURES": "",
    "NUMBA_DISABLE_INTEL_SVML": "1",
    "NUMBA_DISABLE_JIT": "0",
    "NUMBA_BOUNDSCHECK": "0",
    # numba says of each function that it cannot be cached like this.
    "PYTHONWARNINGS": "ignore",
}


MEMORY = """
#include <stdlib.h>

/* A block of memory as numba knows it; what begins 64 bytes later is the array's. */
struct block { size_t references; void *destroy, *argument, *data; size_t size; };

void *NRT_MemInfo_alloc_aligned(size_t size, unsigned alignment) {
  void *memory;
  if (alignment > 64 || posix_memalign(&memory, 64, size + 64)) return NULL;
  struct block *block = memory;
  *block = (struct block){1, NULL, NULL, (char *)memory + 64, size};
  return block;
}

void NRT_MemInfo_call_dtor(void *block) { free(block); }
"""
"""Memory for arrays that the functions make while they run, in place of that of numba's runtime."""


class CompiledEngine(BuildHookInterface[Any]):
    """Adds the compiled engine to a wheel."""

    def dependencies(self) -> list[str]:
        """Return what is needed to build with this hook."""
        return NEEDED if _is_wanted() else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile the engine for a wheel."""
        if self.target_name != "wheel" or version != "standard" or not _is_wanted():
            return
        self.app.display_waiting("Compiling the engine, which takes about two minutes")
        self._folder = tempfile.mkdtemp()
        build(Path(self._folder))
        build_data["force_include"][self._folder] = str(BUILT)
        build_data["pure_python"] = False
        # Python reaches the library through ctypes: one wheel serves every version.
        build_data["tag"] = f"py3-none-linux_{platform.machine()}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove what was added to the wheel."""
        shutil.rmtree(getattr(self, "_folder", ""), ignore_errors=True)


def _is_wanted() -> bool:
    return (
        os.environ.get("SENSORMEND_COMPILE", "1") != "0"
        and sys.platform == "linux"
        and sys.maxsize > 2**32
        and shutil.which("cc") is not None
    )


def build(folder: Path) -> None:
    """Write the compiled engine of the sources beside this file into a folder, which is made where it is missing."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as cache:
        # pip gives what a build requires by PYTHONPATH, too.
        found = [str(ROOT / "src"), *filter(None, [os.environ.get("PYTHONPATH")])]
        paths = {"NUMBA_CACHE_DIR": cache, "PYTHONPATH": os.pathsep.join(found)}
        subprocess.run(
            [sys.executable, __file__, "--translate", folder], check=True, env=os.environ | ENVIRONMENT | paths
        )


def translate(folder: Path) -> None:
    """Take a small network through the engine, and compile for every kind of processor what that has called."""
    import llvmlite.binding as llvm
    from numba import types as numba_types

    from sensormend.model import compiling, library
    from sensormend.model.precompile import precompile

    dispatchers: list[Any] = []
    plain = compiling._jit

    def noted(function: Callable[..., Any], **options: Any) -> Any:
        dispatchers.append(plain(function, **options))
        return dispatchers[-1]

    compiling._jit = noted
    precompile(everything=True)
    module, signatures = llvm.parse_assembly(""), {}
    for dispatcher in dispatchers:
        if not dispatcher.overloads:
            continue
        ((types, compiled),) = dispatcher.overloads.items()
        name = dispatcher.__name__
        if compiled.signature.return_type != numba_types.none:
            # Only others of these call it.
            continue
        signatures[name] = "".join(_code(kind) for kind in types)
        # Not `_get_module_for_linking`, of which what nothing calls may be dropped.
        module.link_in(llvm.parse_bitcode(compiled.library._final_module.as_bitcode()))
        module.link_in(llvm.parse_assembly(_caller(name, compiled)))
    for function in module.functions:
        if not function.is_declaration and function.name not in signatures:
            function.linkage = "internal"
    text, memory = module.as_bitcode(), folder / "memory.c"
    memory.write_text(MEMORY, encoding="utf-8")
    for processor in library.PROCESSORS if platform.machine() == "x86_64" else ["generic"]:
        target = llvm.Target.from_triple(llvm.get_process_triple())
        machine = target.create_target_machine(cpu=processor, opt=3, reloc="pic", codemodel="default")
        tuning = llvm.create_pipeline_tuning_options(speed_level=3)
        tuning.loop_vectorization = True
        passes = llvm.create_pass_builder(machine, tuning)
        optimised = llvm.parse_bitcode(text)
        passes.getModulePassManager().run(optimised, passes)
        if any("numba.dynamic" in variable.name for variable in optimised.global_variables):
            raise RuntimeError("the engine refers to an object of the process that compiled it")
        built = folder / f"engine-{processor}.o"
        built.write_bytes(machine.emit_object(optimised))
        link = ["cc", "-O2", "-fPIC", "-shared", "-s", "-Wl,--no-undefined", "-Wl,-z,noexecstack"]
        subprocess.run([*link, "-o", built.with_suffix(".so"), memory, built, "-lm"], check=True)
        built.unlink()
    memory.unlink()
    record = {"sources": compiling.SOURCES, "signatures": signatures}
    (folder / "engine.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def _code(kind: Any) -> str:
    """Return an argument's type as `library.flatten` writes it."""
    from numba import types
    from numba.np.numpy_support import as_dtype

    from sensormend.model.library import type_code

    if isinstance(kind, types.Array):
        if kind.layout != "C":
            raise TypeError(f"{kind} is not contiguous")
        return f"{type_code(as_dtype(kind.dtype))}{kind.ndim}"
    if _is_tuple(kind):
        return "".join(map(_code, kind))
    return {types.boolean: "b", types.float64: "f", types.int64: "i"}[kind]


def _is_tuple(kind: Any) -> bool:
    from numba import types

    return isinstance(kind, types.BaseTuple)


def _caller(name: str, compiled: Any) -> str:
    """Return the LLVM code of a function that takes the table of a call and calls a compiled function."""
    from llvmlite import ir
    from numba import types
    from numba.np.arrayobj import make_array, populate_array

    context, description = compiled.target_context, compiled.fndesc
    module = context.codegen()._create_empty_module(f"call_{name}")
    word = ir.IntType(64)
    caller = ir.Function(module, ir.FunctionType(ir.IntType(32), [word.as_pointer()]), name)
    builder = ir.IRBuilder(caller.append_basic_block())
    table = caller.args[0]
    place = 0

    def following() -> Any:
        nonlocal place
        place += 1
        return builder.load(builder.gep(table, [ir.Constant(word, place - 1)]))

    header = following()

    def value(kind: Any) -> Any:
        if _is_tuple(kind):
            return context.make_tuple(builder, kind, [value(part) for part in kind])
        entry = following()
        if isinstance(kind, types.Array):
            # After an object's header NumPy's arrays have: data, number of axes, shape, strides.
            fields = builder.inttoptr(builder.add(entry, header), word.as_pointer())
            data, shape, strides = (builder.load(builder.gep(fields, [ir.Constant(word, n)])) for n in (0, 2, 3))
            made = make_array(kind)(context, builder)
            axes = [
                [builder.load(builder.gep(builder.inttoptr(first, word.as_pointer()), [ir.Constant(word, axis)]))
                 for axis in range(kind.ndim)]
                for first in (shape, strides)
            ]  # fmt: skip
            populate_array(
                made,
                data=builder.inttoptr(data, made.data.type),
                shape=axes[0],
                strides=axes[1],
                itemsize=context.get_constant(types.intp, context.get_abi_sizeof(context.get_data_type(kind.dtype))),
                meminfo=None,
            )
            return made._getvalue()
        if kind == types.boolean:
            return builder.icmp_unsigned("!=", entry, ir.Constant(word, 0))
        return builder.bitcast(entry, ir.DoubleType()) if kind == types.float64 else entry

    arguments = [value(kind) for kind in description.argtypes]
    target = context.declare_function(module, description)
    status, _ = context.call_conv.call_function(builder, target, description.restype, description.argtypes, arguments)
    builder.ret(status.code)
    return str(module)


if __name__ == "__main__":
    if sys.argv[1] == "--translate":
        translate(Path(sys.argv[2]))
    else:
        build(Path(sys.argv[1]))
