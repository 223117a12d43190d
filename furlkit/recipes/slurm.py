"""Print a plan for Slurm: a script that submits an array for each stage of a round."""

from collections.abc import Iterator, Sequence

from furlkit.errors import UsageError
from furlkit.recipes.expand import Plan
from furlkit.recipes.forms import (
    PLANNED,
    in_one_line,
    joined,
    records_of,
    removing,
    run_folder,
)
from furlkit.recipes.jobs import Job, jobs
from furlkit.recipes.resources import Resources, Site

Lines = Iterator[str]
_HEAD = """\
#!/bin/sh
# Made by `furlkit plan`: Slurm jobs, an array for each stage of a round.
#   sh FILE              submits the steps that are not finished
#   furlkit status RUN   shows finished, queued and failed steps
# After a failure, repair the cause and run this script again.
set -eu
furlkit=${FURLKIT:-furlkit} code=0
"""
_JOB = """\
# job WHEN NUMBER NAME KIND AFTER...: submit the unfinished tasks of an array; their
# commands are on stdin. Jobs that need this one wait for WHEN, afterok or afterany.
job() {
    when=$1 number=$2 name=$3 kind=$4 tasks='' id='' after=''
    shift 4
    eval "tasks=\\$todo_$number"
    test "$tasks" || return 0
    test "$count" -gt 0 || skip_numbers
    after=$others
    for before; do
        eval "after=\\$after\\$after_$before"
    done
    set -- --dependency="${after#,}" --kill-on-invalid-dep=yes
    test "$after" || shift 2
    id=$(script | submit "$kind" --parsable --requeue --export=ALL \\
        --job-name="$run:$name" --output="$logs/$name-%a.txt" --open-mode=append "$@")
    id=${id%%;*} count=$((count + 1))
    eval "after_$number=,$when:$id"
    all=$all,$when:$id
}
# queued: a line for each job of this run in the queue: number of the task, number of the
# array, state, reason why it waits
queued() {
    squeue --me -h -o '%A %F %T %r|%Z|%j:' |
        grep -F -e "|$here|$run:" -e "|$here|furlkit-next:$run:"
}
# is_queued: whether to wait for jobs of this run
is_queued() {
    queued > /dev/null || return
    cancel_held
    cancel_ended
    queued > /dev/null
}
# cancel_held: if a job cannot start, cancel the waiting jobs
cancel_held() {
    queued | grep -q 'launch.failed.requeued.held' || return 0
    echo "$run: cancels waiting jobs, because Slurm holds one of them" \\
        "(launch failed requeued held)" >&2
    queued | cut -d ' ' -f 2 | sort -u | xargs scancel --state=PENDING
}
# cancel_ended: cancel tasks that have ended, if Slurm shows them as running: a slurmctld
# that crashes within seconds after the end of a task forgets the end
cancel_ended() {
    ended=$(ended_tasks)
    test "$ended" || return 0
    echo "$run: waits a minute, because Slurm shows tasks as running that have ended" >&2
    sleep 60
    ended=$(ended_tasks | grep -Fx "$ended" | paste -s -d ' ' -)
    test "$ended" || return 0
    echo "$run: cancels tasks that have ended: $ended" >&2
    echo "$ended" | xargs scancel
    # Slurm cancels the jobs that wait for these tasks.
    sleep 10
}
# ended_tasks: numbers of tasks that run in the eyes of Slurm and have noted their end
ended_tasks() {
    for id in $(queued | sed -n 's/^\\([0-9]*\\) [0-9]* RUNNING .*/\\1/p'); do
        if ! test -e "$FURLKIT_TASKS/$id"; then
            echo "$run: task $id has not noted its start; if it does not start" \\
                "within minutes, call: scancel $id" >&2
        elif test "$(cat "$FURLKIT_TASKS/$id")" = ended; then
            echo "$id"
        fi
    done
}
# skip_numbers: a slurmctld that crashed gives the numbers of lost jobs again, and a node
# drains if it gets a number twice (Duplicate jobid); cancelled jobs use such numbers up
skip_numbers() (
    last=$(find "$FURLKIT_TASKS" -name '[0-9]*' | sed 's/.*\\///' | sort -n | tail -n 1)
    tasks=0
    while test "$last"; do
        id=$(echo '#!/bin/sh' | submit - --parsable --hold \\
            --job-name=furlkit-number --output=/dev/null)
        id=${id%%;*}
        scancel "$id"
        # A large gap is no crash: Slurm counts from 1 again.
        if test "$id" -ge "$last" || test $((last - id)) -gt 1000; then
            break
        fi
    done
)
# begin RUN JOBS: look at the files of a run; false if the run has jobs in the queue. Every
# job waits for JOBS, the jobs of other runs.
begin() {
    run=$1 others=${2-} count=0 all='' here=$(pwd -P)
    export FURLKIT_TASKS="$run/plan/log/tasks"
    if test -z "${only-}" && is_queued; then
        echo "$run: has jobs in the queue; wait for them, or cancel them" >&2
        code=75
        return 1
    fi
    mkdir -p "$FURLKIT_TASKS" || exit
    logs=$(printf '%s' "$run/plan/log" | sed 's/%/%%/g')
    left=$("$furlkit" status --left "$run") || exit
    eval "$left"
}
squeue --me -h > /dev/null # ends this script if slurmctld does not answer
"""
_END = """\
# After a crash of slurmctld, nodes may need the administrator.
sinfo -h -R -o '%N|%E' 2> /dev/null | sed -n 's/^\\(.*\\)|Duplicate jobid.*/\\1: drained '\\
'after a crash of Slurm; an administrator must call: '\\
'scontrol update nodename=\\1 state=resume/p' >&2
exit "$code"
"""
_WINDOWS = """\
# sh FILE RUN WINDOW: submit from a window of a run on; the last job of a window does so
only=${1-} first=${2-1}
wanted() { test -z "$only" || test "$only" = "$1"; }
# open WINDOW: whether its rounds are submitted now
open() { test "$count" -eq 0 && test "$1" -ge "$first"; }
# next WINDOW: submit a window when the jobs submitted above have ended well
next() {
    test "$count" -gt 0 || return 0
    if ! test -f "$0"; then
        echo "$run: windows of rounds need this script in a file" >&2
        exit 2
    fi
    tasks=0
    export FURLKIT_SCRIPT="$0" FURLKIT_RUN="$run"
    script << END | submit - --export=ALL --job-name="furlkit-next:$run" \\
        --output="$logs/window-$1.txt" --dependency="${all#,}" \\
        --kill-on-invalid-dep=yes > /dev/null
0) sh "\\$FURLKIT_SCRIPT" "\\$FURLKIT_RUN" $1 ;;
esac
END
}
"""
_NOTES = """\
#!/bin/sh
# note WORD: note that this task has started or ended, for use after a crash of slurmctld
note() { echo "$1" > "$FURLKIT_TASKS/$SLURM_JOB_ID"; }
note started
trap 'note ended' EXIT"""
_RUN = """\
# run COMMAND...: before the time limit, tell furlkit to save; if furlkit has stopped and
# can resume (exit code 75), this task goes back to the queue
run() {
    %(launch)s"${FURLKIT:-furlkit}" "$@" -q &
    stage=$! cancelled='' code=0
    trap 'kill -s USR1 "$stage"' USR1
    trap 'cancelled=yes' TERM
    wait "$stage" || code=$?
    while kill -0 "$stage" 2> /dev/null; do
        code=0
        wait "$stage" || code=$?
    done
    test "$code" -gt 0 || return 0
    if test "$cancelled"; then
        echo "exit code $code: stopped by Slurm" >&2
        exit "$code"
    fi
    if test "$code" -eq 75 && test "${SLURM_RESTART_COUNT:-0}" -lt %(restarts)s; then
        # SLURM_JOB_ID of one task is the number of the whole array. During the requeue,
        # Slurm sends TERM to this script and to scontrol.
        task=${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID
        if scontrol requeue "$task" || test "$cancelled"; then
            exit 75
        fi
    fi
    echo "exit code $code: jobs that need this one are cancelled; repair the cause," \\
        "then run the script of furlkit plan again" >&2
    exit "$code"
}
"""
_ENOUGH = """\
# enough COUNT FILE...: if so many files are there, cancel the other tasks of the array
enough() {
    missing=$1
    shift
    for file; do
        test ! -e "$file" || missing=$((missing - 1))
    done
    test "$missing" -gt 0 || scancel "$SLURM_ARRAY_JOB_ID"
}
"""


def as_slurm(plans: Sequence[Plan], site: Site, window: int | None = None) -> Lines:
    """Yield a script with one sbatch per stage and round, `window` rounds at a time."""
    yield _HEAD + PLANNED
    yield from _submit(plans, site)
    found = [site.of(step) for plan in plans for step in plan.samples]
    cancels = any(resources.stragglers == "cancel" for resources in found)
    yield from _script(site.of(), _ENOUGH * cancels)
    yield _JOB
    if window:
        yield _WINDOWS
    needed = _needed_runs(plans)
    if window and needed:
        raise UsageError(
            "--rounds-at-once: does not apply to runs that read files of other runs"
        )
    for number, plan in enumerate(plans):
        folder = joined([run_folder(plan)])
        wanted = f"wanted {folder} && " if window else ""
        if number in needed:
            # Without the jobs of the other runs, no job can be submitted.
            wanted = 'test "$code" -eq 0 && '
            folder += f' "{"".join(f"$all_{k}" for k in needed[number])}"'
        yield f"\nif {wanted}begin {folder}; then"
        yield f"planned {joined(records_of(plan))}"
        yield from _run(plan, site, window)
        if any(number in runs for runs in needed.values()):
            yield f"all_{number}=$all"
        yield 'echo "$run: $count jobs submitted"\nfi'
    yield _END.rstrip()


def _needed_runs(plans: Sequence[Plan]) -> dict[int, list[int]]:
    """By number of a plan, the numbers of the other plans that write its inputs."""
    makers = {
        path: number
        for number, plan in enumerate(plans)
        for step in plan.steps
        for path in step.outputs
    }
    found = {}
    for number, plan in enumerate(plans):
        reads = {path for step in plan.steps for path in step.after}
        others = {makers[path] for path in reads & makers.keys()} - {number}
        if others:
            found[number] = sorted(others)
    return found


def _submit(plans: Sequence[Plan], site: Site) -> Lines:
    """Yield the shell function that requests the resources of each kind of step."""
    steps = [step for plan in plans for step in plan.steps]
    kinds = {site.name_of(step): site.of(step) for step in steps}
    yield "# submit KIND OPTION...: sbatch with the resources of a kind of step"
    yield "submit() {\n    kind=$1\n    shift\n    case $kind in"
    for name, resources in kinds.items():
        if resources != site.of():
            yield f"    {name}) {_sbatch(resources)} ;;"
    yield f"    *) {_sbatch(site.of())} ;;\n    esac\n}}"


def _sbatch(found: Resources) -> str:
    limit = f"%{found.at_once}" if found.at_once else ""
    return f'sbatch --array="$tasks{limit}" {joined(_options(found))} "$@"'


def _options(found: Resources) -> Lines:
    if found.gpus % 1 and not found.gres:
        raise UsageError(
            f"[resources] gpus = {found.gpus}: Slurm gives whole GPUs; set gres, as "
            '"shard:1", or print the plan --as hq'
        )
    gres = found.gres or (f"gpu:{found.gpus:.0f}" if found.gpus else "")
    values = {
        "partition": found.partition, "account": found.account, "qos": found.qos,
        "constraint": found.constraint, "time": found.time, "mem": found.memory,
        "cpus-per-task": str(found.cpus) if found.cpus > 1 else "", "gres": gres,
        "signal": f"B:USR1@{found.notice}",
    }  # fmt: skip
    yield from (f"--{name}={value}" for name, value in values.items() if value)
    yield from found.options


def _script(found: Resources, more: str) -> Lines:
    """Yield the shell function that prints the first lines of every job script."""
    launch = f"{found.launch} " if found.launch else ""
    lines = [_NOTES, *found.setup]
    if found.wait_for_files:
        lines.append(f"export FURLKIT_WAIT_FOR_FILES={found.wait_for_files}")
    text = _RUN % {"launch": launch, "restarts": found.restarts}
    yield "# script: the script of a job; the commands of its tasks are on stdin"
    yield "script() {\n    cat << 'END'"
    yield "\n".join(lines)
    yield f"{text}{more}case $SLURM_ARRAY_TASK_ID in\nEND\n    cat\n}}"


def _run(plan: Plan, site: Site, window: int | None) -> Lines:
    """Yield the jobs of a run, grouped by window of rounds."""
    found = jobs(plan)
    windows: dict[int, list[int]] = {}
    for number, job in enumerate(found):
        place = max(0, job.place - 1) // window if window else 0
        windows.setdefault(place + 1, []).append(number)
    last = max(windows, default=1)
    for place, numbers in sorted(windows.items()):
        if window:
            yield f"\nif open {place}; then"
        for number in numbers:
            yield from _job(plan, site, number, found[number])
        if window:
            yield f"next {place + 1}\nfi" if place < last else "fi"


def _job(plan: Plan, site: Site, number: int, job: Job) -> Lines:
    steps = [plan.steps[k] for k in job.steps]
    kind = site.name_of(steps[0]) if steps else "-"
    when = "afterok" if job.quorum is None else "afterany"
    after = "".join(f" {k}" for k in job.after)
    yield f"job {when} {number} {job.name} {kind}{after} << 'END'"
    for k, step in enumerate(steps):
        yield f"{k}) run {in_one_line(step.command, 'Slurm')} ;;"
    if job.removal:
        yield f"0) {removing(job.removal)} ;;"
    yield "esac"
    if job.quorum and site.of(steps[0]).stragglers == "cancel":
        uploads = joined(path for step in steps for path in step.outputs)
        yield f"enough {job.quorum} {uploads}"
    yield "END"
