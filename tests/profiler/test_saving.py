"""Profiles in files: read again they are the same, and those of several processes become one."""

import asyncio
import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from phonograd.profiler import Domain, EventList, load, profile, record_function, schedule, validate_trace

from .programs import training_step


def everything(events: EventList) -> list[Any]:
    return [
        (
            *(e.name, e.scope, e.thread, e.start_ns, e.end_ns, e.self_ns, e.total_ns, e.unfinished, e.error, e.kind),
            *(e.attributes, e.input_shapes, e.stack, e.cost, e.operators, e.parent and e.parent.id, e.is_async),
            *(e.credit.kernel_ns, e.credit.backward_ns, e.credit.net, e.credit.peak),
        )
        for e in events
    ]


def test_read_again_it_is_the_same(tmp_path: Path) -> None:
    @record_function("generator")
    def generator() -> Any:
        yield 1
        yield 2

    async def job() -> None:
        with record_function("job"):
            await asyncio.sleep(0.001)

    async def main() -> None:
        await asyncio.gather(job(), job())

    steps = schedule(wait=0, warmup=0, active=2)
    with profile(schedule=steps, profile_memory=True, with_flops=True, with_stack=True, with_modules=True) as prof:
        training_step()
        list(generator())
        asyncio.run(main())
        Domain("d").new_counter("c", 3).increment()
        with pytest.raises(KeyError), record_function("failing", "text", {"number": 1}):
            raise KeyError
        left = record_function("left open")
        left.__enter__()
    left.__exit__()
    prof.add_metadata("note", "x")
    for name in ("profile.json", "profile.json.gz"):
        prof.save(tmp_path / name)
        loaded = load(tmp_path / name)
        assert everything(loaded.events()) == everything(prof.events())
        assert loaded.table() == prof.table()
        assert str(loaded.by_scope()) == str(prof.by_scope())
        assert loaded.memory_timeline().as_dict() == prof.memory_timeline().as_dict()
        assert len(loaded.events().links) == len(prof.events().links) == 2
        assert loaded.metadata == {"note": "x", "trace_id": prof.get_trace_id()}
        assert loaded.events().wall_ns == prof.events().wall_ns
    prof.export_chrome_trace(tmp_path / "first.json")
    loaded.export_chrome_trace(tmp_path / "second.json")
    assert (tmp_path / "first.json").read_bytes() == (tmp_path / "second.json").read_bytes()
    assert all(change.status == "same" for change in prof.diff(loaded))


def test_several_processes_on_one_timeline(tmp_path: Path) -> None:
    program = """
        import sys
        from phonograd.profiler import profile, record_function
        with profile() as prof, record_function("child"):
            pass
        prof.save(sys.argv[1])
    """
    with profile() as prof, record_function("parent"):
        paths = [tmp_path / f"child{number}.json" for number in range(1)]
        for path in paths:
            subprocess.run([sys.executable, "-c", textwrap.dedent(program), str(path)], env=os.environ, check=True)
    prof.save(tmp_path / "parent.json")
    merged = load(tmp_path / "parent.json", *paths)
    parent, first = merged.events()
    assert [event.name for event in merged.events()] == ["parent", "child"]
    assert parent.start_ns < first.start_ns < first.end_ns < parent.end_ns
    assert len({event.thread for event in merged.events()}) == 2
    assert all(name.startswith("process ") for name in merged.events().threads.values())
    merged.export_chrome_trace(tmp_path / "merged.json")
    assert validate_trace(tmp_path / "merged.json") == []


def test_other_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text("[]")
    with pytest.raises(ValueError, match="is not a saved profile"):
        load(path)
    path.write_text(json.dumps({"format": "phonograd profile", "version": 99}))
    with pytest.raises(ValueError, match="newer version"):
        load(path)
    with pytest.raises(ValueError, match="no profile to load"):
        load()
