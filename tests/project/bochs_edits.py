"""Edits of Bochs: what the emulator lacks or does wrong, corrected in its source; see :mod:`tests.project.emulated`.

* A processor can refuse tile registers to a thread until the system has memory to save them (XFD), and Linux offers
  tiles on no other processor. Bochs has no XFD.
* It saves tile registers wrongly. A thread that lost the processor within a kernel found no tiles or other numbers
  afterwards.
* It multiplies signed bytes of tiles as unsigned ones.
* It refuses to gather from addresses in the registers ``zmm16`` to ``zmm31`` (an illegal instruction).
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

__all__ = ["EDITS", "Edit", "edit"]


class Edit(NamedTuple):
    """A replacement of text in a file: all occurrences after a mark, or the first ones of them."""

    file: str
    mark: str
    old: str
    new: str
    count: int = -1


_READ = """\
    case BX_MSR_IA32_XFD: val64 = BX_CPU_THIS_PTR amx->xfd; break;
    case BX_MSR_IA32_XFD_ERROR: val64 = BX_CPU_THIS_PTR amx->xfd_error; break;

"""
_WRITE = """\
    case BX_MSR_IA32_XFD: BX_CPU_THIS_PTR amx->xfd = val_64; break;
    case BX_MSR_IA32_XFD_ERROR: BX_CPU_THIS_PTR amx->xfd_error = val_64; break;

"""
_NAMES = """\
  msr_desc[BX_MSR_IA32_XFD] = new MSR_Descriptor("MSR_IA32_XFD", BX_ISA_AMX);
  msr_desc[BX_MSR_IA32_XFD_ERROR] = new MSR_Descriptor("MSR_IA32_XFD_ERR", BX_ISA_AMX);
"""
#: each kernel configures its tiles first, so no other instruction needs the check
_CHECK = """{
  if (BX_CPU_THIS_PTR amx->xfd & (1 << 18)) {
    BX_CPU_THIS_PTR amx->xfd_error = 1 << 18;
    exception(BX_NM_EXCEPTION, 0);
  }
"""
_BARRIER = "    // artificial MSR for"

EDITS = (
    # the processor announces XFD, for the data of tiles
    Edit("cpuid.cc", "EAX[4]", "(1<<3)", "(3<<3)", 1),
    Edit("crregs.cc", "XTILEDATA_BIT].attr", "BX_XSAVE_ALIGN64", "BX_XSAVE_ALIGN64 | BX_XSAVE_XFD_SUPPORT", 1),
    # its two registers, and the exception at first use
    Edit(
        "avx/amx.h", "", "start_row(0) {}", "start_row(0), tile_use_tracker(0) {}\n  Bit64u xfd = 0, xfd_error = 0;", 1
    ),
    Edit("msr.cc", "", '#include "msr.h"', '#include "msr.h"\n#include "avx/amx.h"', 1),
    Edit("msr.cc", "", "  msr_desc[BX_MSR_IA32_APERF]", _NAMES + "  msr_desc[BX_MSR_IA32_APERF]", 1),
    Edit("msr.cc", "::rdmsr(", _BARRIER, _READ + _BARRIER, 1),
    Edit("msr.cc", "::wrmsr(", _BARRIER, _WRITE + _BARRIER, 1),
    Edit("avx/amx.cc", "::LDTILECFG", "{\n", _CHECK, 1),
    # rows and bytes of a row were exchanged, half of the rows were lost, and only unused tiles were saved
    Edit("xsave.cc", "::xsave_tilecfg_state(", "tilecfg[n].rows", "tilecfg[n].ROWS", 1),
    Edit("xsave.cc", "::xsave_tilecfg_state(", "tilecfg[n].bytes_per_row", "tilecfg[n].rows", 1),
    Edit("xsave.cc", "::xsave_tilecfg_state(", "tilecfg[n].ROWS", "tilecfg[n].bytes_per_row", 1),
    Edit("xsave.cc", "::xsave_tiledata_state(", "row < BX_TILE_REGISTERS", "row < BX_TILE_MAX_ROWS", 2),
    Edit("xsave.cc", "", "tile_use_tracker == 0", "tile_use_tracker != 0", 1),
    # the fifth bit of the number of a vector of addresses is no sign of another operand
    Edit("decoder/fetchdecode32.cc", "case BX_SRC_VSIB", "(vvv & 0x10));", "(vvv & 0x10));\n      vvv &= 0xf;", 1),
    # instructions that the processor does not know are named in the emulator's messages
    Edit("proc_ctrl.cc", "::BxError", "if (LOG_THIS getonoff(LOGLEV_DEBUG))", "", 1),
    Edit("proc_ctrl.cc", "::BxError", "BX_DEBUG((", "BX_ERROR((", 2),
    Edit("debugstuff.cc", "::debug_disasm_instruction", "BX_INFO((", "BX_ERROR((", 1),
    # bytes keep their signs
    Edit("avx/amx.cc", "DPBDSS", "Bit32s(xbyte", "Bit32s((Bit8s) xbyte"),
    Edit("avx/amx.cc", "DPBDSS", "Bit32s(ybyte", "Bit32s((Bit8s) ybyte"),
)


def edit(folder: Path) -> None:
    """Edit the files of the emulated processor.

    Raises SystemExit if a file does not contain a text that is to be replaced.
    """
    for file, mark, old, new, count in EDITS:
        whole = (folder / file).read_text("latin-1")
        place = whole.find(mark)
        if place < 0 or whole.count(old, place) < max(count, 1):
            raise SystemExit(f"{folder / file} is not the Bochs that this script knows: no {old!r} after {mark!r}")
        (folder / file).write_text(whole[:place] + whole[place:].replace(old, new, count), "latin-1")
