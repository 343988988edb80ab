"""Accounts, QOS and limits for a `Lab`: slurmdbd and MariaDB on loopback, in a folder."""

from __future__ import annotations

import getpass
import os
import socket
import subprocess
import time
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from benchmarks.ports import Ports
from benchmarks.slurm_lab import PATIENCE_S

__all__ = ["MARIADB", "SLURMDBD", "Accounts"]

SLURMDBD, MARIADB = Path("/usr/sbin/slurmdbd"), Path("/usr/sbin/mariadbd")

CONFIGURATION = """\
AuthType=auth/none
DbdHost=localhost
DbdAddr=127.0.0.1
DbdPort={port}
SlurmUser={user}
LogFile={folder}/slurmdbd.log
PidFile={folder}/slurmdbd.pid
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePort={database}
StorageUser={user}
StorageLoc=slurm
"""


class Accounts:
    """A slurmdbd with a database of its own, up between `with` and its end.

    Its folder is that of the lab, since slurmdbd looks for its configuration beside slurm.conf.
    `configuration` are the lines that the lab's slurm.conf needs.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._ports = Ports()
        self._database, self._port = self._ports.first, self._ports.first + 1
        self._daemons: list[subprocess.Popen[bytes]] = []

    @property
    def configuration(self) -> str:
        """Lines of slurm.conf."""
        return (
            "AccountingStorageType=accounting_storage/slurmdbd\n"
            f"AccountingStorageHost=127.0.0.1\nAccountingStoragePort={self._port}\n"
            "AccountingStorageEnforce=associations,limits,qos\n"
            "AccountingStorageTRES=gres/gpu,gres/gpu:h100\n"
        )

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.callback(self._kill)
            user, data = getpass.getuser(), self._folder / "database"
            words = ("--no-defaults", f"--datadir={data}", f"--user={user}")
            install = ("mariadb-install-db", *words, "--skip-test-db")
            done = subprocess.run(install, capture_output=True, text=True, check=False)
            if done.returncode:
                raise RuntimeError(f"mariadb-install-db: {done.stdout}{done.stderr}")
            self._start(
                *(str(MARIADB), *words, f"--socket={self._folder}/database.sock"),
                *("--bind-address=127.0.0.1", f"--port={self._database}", "--skip-grant-tables"),
                *("--skip-log-bin", "--innodb-flush-log-at-trx-commit=0", "--innodb-doublewrite=0"),
            )
            self._wait(self._database)
            file = self._folder / "slurmdbd.conf"
            file.write_text(
                CONFIGURATION.format(
                    port=self._port, database=self._database, user=user, folder=self._folder
                )
            )
            file.chmod(0o600)
            self._start(str(SLURMDBD), "-D")
            self._wait(self._port)
            stack.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._kill()

    def _start(self, *words: str) -> None:
        with (self._folder / "accounts.log").open("ab") as log:
            self._daemons.append(
                subprocess.Popen(
                    ("setpriv", "--pdeathsig", "KILL", *words),
                    env={**os.environ, "SLURM_CONF": str(self._folder / "slurm.conf")},
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    process_group=0,
                )
            )

    def _wait(self, port: int) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            if self._daemons[-1].poll() is not None:
                log = (self._folder / "accounts.log").read_text(errors="replace").splitlines()
                raise RuntimeError(f"a daemon ended: {' / '.join(log[-3:])}")
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    return
            time.sleep(0.2)
        raise TimeoutError(f"nothing listens within {PATIENCE_S} s")

    def _kill(self) -> None:
        for daemon in reversed(self._daemons):
            daemon.kill()
            daemon.wait(PATIENCE_S)
        self._daemons.clear()
        self._ports.close()
