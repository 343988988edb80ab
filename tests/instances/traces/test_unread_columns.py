"""Columns of a trace that nobody reads are named."""

from placewright.cli.app import main
from placewright.instances.traces.read import read_trace


def test_columns_that_nobody_reads_are_named(tmp_path, capfd):
    path = tmp_path / "trace.csv"
    header = "job,submit_s,gpus,duration_s,tenant,prio,cpus\n"
    path.write_text(f"{header}one,0,1,10,a,5,2\ntwo,0,1,10,b,7,2\n")
    assert read_trace(path).unread == ("job", "prio", "cpus")
    line = "columns that nobody reads: job, prio, cpus\n"
    assert main(["replay", str(path), "--hosts", "1x8", "--policy", "fifo"]) == 0
    assert line in capfd.readouterr().err
    for words in (["--policy", "fifo"], ["--policy", "fifo", "--policy", "srtf"]):
        folder = str(tmp_path / f"out{len(words)}")
        assert main(["replay", str(path), "--hosts", "1x8", *words, "-o", folder]) == 0
        assert line in capfd.readouterr().err
    own = tmp_path / "mine.py"
    own.write_text(
        "from placewright.rounds.policies.base import ListPolicy\n"
        "mine = ListPolicy('mine', lambda jobs: jobs.prio, sees=frozenset({'prio'}), "
        "preempts=False, skips=True)\n"
    )
    assert main(["replay", str(path), "--hosts", "1x8", "--policy", f"{own}:mine"]) == 0
    assert "columns that nobody reads: job, cpus\n" in capfd.readouterr().err


def test_a_trace_whose_columns_are_all_read_has_no_line(tmp_path, capfd):
    path = tmp_path / "trace.csv"
    path.write_text("name,submit_s,gpus,duration_s,group,value\none,0,1,10,a,1\n")
    assert read_trace(path).unread == ("group",)
    path.write_text("name,submit_s,gpus,duration_s,value\none,0,1,10,1\n")
    assert main(["replay", str(path), "--hosts", "1x8", "--policy", "fifo"]) == 0
    assert "nobody reads" not in capfd.readouterr().err
