"""A Slurm cluster of one node on the loopback address, in a folder; root only.

No systemd and no cgroups are needed. Two GPUs that do not exist can be asked for.
A requeued task waits until the credential of its last start has expired (cred_expire),
by default two minutes. A start in the second of the requeue would fail: "Killing
non-startable batch JobId: Job credential revoked".
"""

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

CONFIGURATION = """\
ClusterName=furlkit
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort={controller}
SlurmdPort={node}
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge/munge.socket,cred_expire=10
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/log/slurmctld.log
SlurmdLogFile={folder}/log/slurmd.log
ProctrackType=proctrack/pgid
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
MpiDefault=none
ReturnToService=2
SchedulerParameters=sched_interval=1,bf_interval=1,defer_batch
MinJobAge=300
GresTypes=gpu
NodeName=localhost NodeAddr=127.0.0.1 CPUs=2 RealMemory=2000 Gres=gpu:2 State=UNKNOWN
PartitionName=debug Nodes=ALL Default=YES MaxTime=INFINITE State=UP
JobCompType=jobcomp/filetxt
JobCompLoc={folder}/log/ended.txt
"""
STEP = 20  # The example of Flower counts up from a port.
PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "scontrol", "squeue")


_claims: list[socket.socket] = []  # Held until the end of the tests.


def free_port() -> int:
    """A port that nobody listens on, followed by STEP - 1 further free ports.

    Outgoing connections take ports of the system's range, and other processes of tests
    see the claim, so a server may bind the port later.
    """
    limits = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()
    below, above = (
        range(10_000, int(limits[0]), STEP),
        range(int(limits[1]) + 1, 65_500, STEP),
    )
    for port in (*above, *below):
        claim = socket.socket(socket.AF_UNIX)
        try:
            claim.bind(f"\0furlkit-tests-{port}")
            for number in range(port, port + STEP):
                with socket.socket() as tried:
                    tried.bind(("127.0.0.1", number))
        except OSError:
            claim.close()
            continue
        _claims.append(claim)
        return port
    raise AssertionError("no free port")


class Cluster:
    """The daemons; `environment` is for programs that talk to them."""

    def __init__(self, folder: Path, environment: dict[str, str]):
        self.folder = folder
        self.environment = {**environment, "SLURM_CONF": str(folder / "slurm.conf")}
        for name in ("state", "spool", "log", "munge"):
            (folder / name).mkdir(parents=True)
        ports = {"controller": free_port(), "node": free_port()}
        text = CONFIGURATION.format(folder=folder, **ports)
        (folder / "slurm.conf").write_text(text)
        devices = "NodeName=localhost Name=gpu File=/dev/null,/dev/zero\n"
        (folder / "gres.conf").write_text(devices)

    def start(self) -> None:
        """Start all daemons, and wait until the node is idle."""
        munge = self.folder / "munge"
        self._call("chown", "-R", "munge:munge", munge)
        self._call(
            "setpriv", "--reuid=munge", "--regid=munge", "--clear-groups", "munged",
            "--force", f"--socket={munge}/munge.socket", f"--pid-file={munge}/munged.pid",
            f"--log-file={munge}/munged.log", f"--seed-file={munge}/seed",
        )  # fmt: skip
        self._call("slurmctld", "-c")
        self._call("slurmd", "-N", "localhost")
        self.wait(self.is_idle)

    def kill_controller(self) -> None:
        """End slurmctld as a crash would."""
        process = self._process("slurmctld.pid")
        os.kill(process, signal.SIGKILL)
        self.wait(lambda: not Path(f"/proc/{process}").exists())

    def save_queue(self) -> Path:
        """Wait until slurmctld has saved its queue; return a copy of the saved files."""
        time.sleep(10)  # slurmctld saves its queue some seconds after a change.
        saved = self.folder / "saved"
        shutil.rmtree(saved, ignore_errors=True)
        return shutil.copytree(self.folder / "state", saved)

    def forget_since(self, saved: Path) -> None:
        """Let slurmctld crash, as if it had not saved its queue since then."""
        self.kill_controller()
        shutil.rmtree(self.folder / "state")
        saved.rename(self.folder / "state")
        self.restart_controller()

    def restart_controller(self) -> None:
        """Start slurmctld with the queue that it had saved."""
        self._call("slurmctld")
        self.wait(lambda: self.queue() is not None)

    def stop(self) -> None:
        """End all daemons."""
        for name in ("slurmd.pid", "slurmctld.pid", "munge/munged.pid"):
            with suppress(OSError, ValueError):
                process = self._process(name)
                os.kill(process, signal.SIGTERM)
                self.wait(lambda process=process: not Path(f"/proc/{process}").exists())

    def controller_seconds(self) -> float:
        """Time of the processor that slurmctld has used."""
        text = Path(f"/proc/{self._process('slurmctld.pid')}/stat").read_text()
        words = text.rpartition(")")[2].split()  # From the third field on, the state.
        return sum(map(int, words[11:13])) / os.sysconf("SC_CLK_TCK")

    def _process(self, name: str) -> int:
        return int((self.folder / name).read_text())

    def _call(self, *words: Any) -> None:
        subprocess.run([*map(str, words)], env=self.environment, check=True)

    def call(self, *words: Any) -> str:
        """Run a program; returns the text that it prints."""
        done = self.run(*words)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def run(self, *words: Any) -> subprocess.CompletedProcess:
        """Run a program that may fail."""
        return subprocess.run(
            [*map(str, words)], env=self.environment, capture_output=True, text=True
        )

    def is_idle(self) -> bool:
        """Whether the node waits for jobs."""
        return "idle" in self.run("sinfo", "-h", "-o", "%t").stdout

    def cancel(self) -> None:
        """Cancel all jobs; there may be none."""
        self.run("scancel", "--user=root")

    def queue(self, form: str = "%i %j %T %r") -> list[str] | None:
        """One line for each task in the queue; None if slurmctld does not answer."""
        done = self.run("squeue", "-h", "-r", "-o", form)
        return None if done.returncode else done.stdout.splitlines()

    def wait(self, done: Callable[[], bool], seconds: float = 300) -> None:
        """Wait until something is true."""
        end = time.monotonic() + seconds
        while not done():
            assert time.monotonic() < end, (self.queue(), self.log())
            time.sleep(0.2)

    def drain(self, seconds: float = 900) -> None:
        """Wait until the queue is empty."""
        self.wait(lambda: self.queue() == [], seconds)

    def log(self) -> str:
        """The last lines of slurmctld's log."""
        text = (self.folder / "log" / "slurmctld.log").read_text()
        return "\n".join(text.splitlines()[-20:])

    def ended(self) -> list[dict[str, str]]:
        """All tasks that have ended, in the words of Slurm."""
        path = self.folder / "log" / "ended.txt"
        lines = path.read_text().splitlines() if path.exists() else []
        return [
            dict(word.split("=", 1) for word in line.split() if "=" in word)
            for line in lines
        ]
