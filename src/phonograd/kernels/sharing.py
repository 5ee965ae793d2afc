"""Sharing: the text of the functions that share a kernel's range out among threads.

Everything that happens per launch is native code on one block of memory:

=============  =====================================================================================================
word           meaning
=============  =====================================================================================================
``OWNER``      1 while a thread has the team. Others that come meanwhile do not wait: they work alone
``CLAIM``      number of the job, shifted up, plus the chunks that nobody has begun. A chunk is taken by lowering this
               word by one, with a compare-exchange that fails if the job is over, so a worker may look at any time
               and is never waited for unless it has a chunk; from then on the words of the job stay as they are
``REMAINING``  chunks that are not finished; whoever finishes the last one wakes the launching thread if it sleeps
``QUIT``       1 when workers should end
=============  =====================================================================================================

A worker without work looks at ``CLAIM`` for some microseconds and then sleeps on a lock of its own. Waking it takes
longer than many kernels run, so sleepers are woken for much work only: by a row of launches that has much to do when it
begins, or by a single launch. They are woken along a tree: the launching thread wakes two, each of these two more.
"""

from __future__ import annotations

__all__ = [
    "ACQUIRE",
    "CLAIM",
    "FIRST_WORKER",
    "LOCK",
    "MUCH_WORK",
    "OWNER_LOCK",
    "OWNER_SPINS",
    "PARALLEL",
    "RELEASE",
    "SLEEPS",
    "SPINS",
    "SUMMON",
    "WORKERS",
    "WORKER_WORDS",
    "team_text",
]

#: chunks (of 5 to 40 us) that are worth waking up workers
MUCH_WORK = 8

#: words of a worker. Words that different threads write lie two cache lines apart, because processors fetch pairs
WORKER_WORDS = 16
#: words of a team's memory, and of a worker's part of it
PARALLEL, SUMMON, WORKERS, SPINS, OWNER_SPINS, ACQUIRE, RELEASE, OWNER_LOCK = range(8)
OWNER, CLAIM, JOB, REMAINING, OWNER_SLEEPS, QUIT, FIRST_WORKER = [WORKER_WORDS * line for line in range(1, 8)]
KERNEL, TABLE, BASES, EXTENT, CHUNK, CHUNKS = range(JOB, JOB + 6)
SLEEPS, LOCK = 0, 1

#: bits of CLAIM that count chunks
CHUNK_BITS = 24

_PAUSES = {
    "x86_64": ("declare void @llvm.x86.sse2.pause()", "call void @llvm.x86.sse2.pause()"),
    "aarch64": ("declare void @llvm.aarch64.isb(i32)", "call void @llvm.aarch64.isb(i32 15)"),
}


def team_text(machine: str) -> str:
    """Return the text of the team's functions for a machine (as ``platform.machine()`` names it).

    ``parallel`` runs a kernel over a range, ``summon`` wakes workers up, ``worker`` is the life of one, ``dismiss``
    ends it, and ``spin`` waits for some turns.
    """
    declaration, pause = _PAUSES.get({"amd64": "x86_64", "arm64": "aarch64"}.get(machine.lower(), machine), ("", ""))

    def word(name: str, offset: int, pointer: str = "%team") -> str:
        return f"%{name} = getelementptr i64, ptr {pointer}, i64 {offset}"

    return f"""
{declaration}

define internal void @spin(i64 %turns) nounwind {{
entry:
  %counter = alloca i64, align 8
  br label %turn
turn:
  %done = phi i64 [ 0, %entry ], [ %next, %turn ]
  {pause}
  %next = add i64 %done, 1
  ; the loop must not be dropped where a pause is nothing
  store volatile i64 %next, ptr %counter, align 8
  %more = icmp slt i64 %next, %turns
  br i1 %more, label %turn, label %over
over:
  ret void
}}

; lets a thread go on that sleeps or is about to: exactly one release for each time that %sleeps was set
define internal void @wake(ptr %team, ptr %sleeps, ptr %lock) nounwind {{
entry:
  %asleep = load atomic i64, ptr %sleeps seq_cst, align 8
  %may = icmp ne i64 %asleep, 0
  br i1 %may, label %try, label %over
try:
  %exchanged = cmpxchg ptr %sleeps, i64 1, i64 0 seq_cst seq_cst
  %mine = extractvalue {{ i64, i1 }} %exchanged, 1
  br i1 %mine, label %release, label %over
release:
  {word("release.at", RELEASE)}
  %release.function = load ptr, ptr %release.at, align 8
  call void %release.function(ptr %lock)
  br label %over
over:
  ret void
}}

; wakes workers %first and %first + 1 where they exist, and only one of them if only one chunk is to be expected
define internal void @wake_two(ptr %team, i64 %first, i64 %expected) nounwind {{
entry:
  {word("workers.at", WORKERS)}
  %workers = load i64, ptr %workers.at, align 8
  %few = icmp slt i64 %expected, 2
  %number = select i1 %few, i64 %expected, i64 2
  %after = add i64 %first, %number
  %less = icmp slt i64 %after, %workers
  %limit = select i1 %less, i64 %after, i64 %workers
  br label %one
one:
  %index = phi i64 [ %first, %entry ], [ %next, %call ]
  %next = add i64 %index, 1
  %exists = icmp slt i64 %index, %limit
  br i1 %exists, label %call, label %over
call:
  %offset = mul i64 %index, {WORKER_WORDS}
  %place = add i64 %offset, {FIRST_WORKER}
  %sleeps = getelementptr i64, ptr %team, i64 %place
  {word("lock.at", LOCK, "%sleeps")}
  %lock = load ptr, ptr %lock.at, align 8
  call void @wake(ptr %team, ptr %sleeps, ptr %lock)
  br label %one
over:
  ret void
}}

; takes chunks of a job and runs them until there is none left, or another job has begun
define internal void @share(ptr %team, i64 %job) nounwind {{
entry:
  {word("claim.at", CLAIM)}
  {word("kernel.at", KERNEL)}
  {word("table.at", TABLE)}
  {word("bases.at", BASES)}
  {word("extent.at", EXTENT)}
  {word("chunk.at", CHUNK)}
  {word("chunks.at", CHUNKS)}
  br label %look
look:
  %finished = phi i64 [ 0, %entry ], [ %finished, %take ], [ %more, %run ]
  %claim = load atomic i64, ptr %claim.at monotonic, align 8
  %number = lshr i64 %claim, {CHUNK_BITS}
  %same = icmp eq i64 %number, %job
  %left = and i64 %claim, {(1 << CHUNK_BITS) - 1}
  %some = icmp ne i64 %left, 0
  %both = and i1 %same, %some
  br i1 %both, label %take, label %count
take:
  %lower = sub i64 %claim, 1
  %exchanged = cmpxchg ptr %claim.at, i64 %claim, i64 %lower acq_rel monotonic
  %mine = extractvalue {{ i64, i1 }} %exchanged, 1
  br i1 %mine, label %run, label %look
run:
  %kernel = load ptr, ptr %kernel.at, align 8
  %table = load ptr, ptr %table.at, align 8
  %bases = load ptr, ptr %bases.at, align 8
  %extent = load i64, ptr %extent.at, align 8
  %chunk = load i64, ptr %chunk.at, align 8
  %chunks = load i64, ptr %chunks.at, align 8
  %index = sub i64 %chunks, %left
  %begin = mul i64 %index, %chunk
  %after = add i64 %begin, %chunk
  %inside = icmp slt i64 %after, %extent
  %end = select i1 %inside, i64 %after, i64 %extent
  call void %kernel(ptr %table, ptr %bases, i64 %begin, i64 %end)
  %more = add i64 %finished, 1
  br label %look
count:
  %any = icmp sgt i64 %finished, 0
  br i1 %any, label %subtract, label %over
subtract:
  {word("remaining.at", REMAINING)}
  %before = atomicrmw sub ptr %remaining.at, i64 %finished seq_cst
  %last = icmp eq i64 %before, %finished
  br i1 %last, label %end_job, label %over
end_job:
  ; by now another thread may have the team: waking it for nothing is allowed for
  {word("sleeps", OWNER_SLEEPS)}
  {word("lock.at", OWNER_LOCK)}
  %lock = load ptr, ptr %lock.at, align 8
  call void @wake(ptr %team, ptr %sleeps, ptr %lock)
  br label %over
over:
  ret void
}}

define internal void @worker(ptr %team, i64 %index) nounwind {{
entry:
  {word("claim.at", CLAIM)}
  {word("quit.at", QUIT)}
  {word("spins.at", SPINS)}
  {word("acquire.at", ACQUIRE)}
  %spins = load i64, ptr %spins.at, align 8
  %acquire = load ptr, ptr %acquire.at, align 8
  %offset = mul i64 %index, {WORKER_WORDS}
  %place = add i64 %offset, {FIRST_WORKER}
  %sleeps = getelementptr i64, ptr %team, i64 %place
  {word("lock.at", LOCK, "%sleeps")}
  %lock = load ptr, ptr %lock.at, align 8
  %twice = mul i64 %index, 2
  %child = add i64 %twice, 2
  br label %look
look:
  %seen = phi i64 [ 0, %entry ], [ %job, %work ], [ %seen, %pause ], [ %seen, %stay ], [ %seen, %wait ]
  %turns = phi i64 [ 0, %entry ], [ 0, %work ], [ %turn, %pause ], [ 0, %stay ], [ 0, %wait ]
  %quit = load atomic i64, ptr %quit.at monotonic, align 8
  %stop = icmp ne i64 %quit, 0
  br i1 %stop, label %over, label %compare
compare:
  %claim = load atomic i64, ptr %claim.at monotonic, align 8
  %job = lshr i64 %claim, {CHUNK_BITS}
  %new = icmp ne i64 %job, %seen
  br i1 %new, label %found, label %idle
found:
  %left = and i64 %claim, {(1 << CHUNK_BITS) - 1}
  ; one chunk is for this thread, others are worth waking two more
  %others = sub i64 %left, 1
  %any = icmp sgt i64 %others, 0
  br i1 %any, label %spread, label %work
spread:
  call void @wake_two(ptr %team, i64 %child, i64 %others)
  br label %work
work:
  call void @share(ptr %team, i64 %job)
  br label %look
idle:
  %turn = add i64 %turns, 1
  %tired = icmp sgt i64 %turn, %spins
  br i1 %tired, label %lie_down, label %pause
pause:
  {pause}
  br label %look
lie_down:
  ; either this thread sees the new job here, or who began it sees that this thread sleeps
  store atomic i64 1, ptr %sleeps seq_cst, align 8
  %claim.again = load atomic i64, ptr %claim.at seq_cst, align 8
  %quit.again = load atomic i64, ptr %quit.at seq_cst, align 8
  %job.again = lshr i64 %claim.again, {CHUNK_BITS}
  %nothing = icmp eq i64 %job.again, %seen
  %go_on = icmp eq i64 %quit.again, 0
  %sleep = and i1 %nothing, %go_on
  br i1 %sleep, label %wait, label %get_up
get_up:
  %exchanged = cmpxchg ptr %sleeps, i64 1, i64 0 seq_cst seq_cst
  %mine = extractvalue {{ i64, i1 }} %exchanged, 1
  br i1 %mine, label %stay, label %wait
stay:
  br label %look
wait:
  %acquired = call i32 %acquire(ptr %lock, i32 1)
  br label %look
over:
  ret void
}}

define internal void @parallel(ptr %team, ptr %kernel, ptr %table, ptr %bases, i64 %extent, i64 %chunk) nounwind {{
entry:
  {word("owner.at", OWNER)}
  %exchanged = cmpxchg ptr %owner.at, i64 0, i64 1 acq_rel monotonic
  %mine = extractvalue {{ i64, i1 }} %exchanged, 1
  br i1 %mine, label %divide, label %alone
divide:
  %less = sub i64 %chunk, 1
  %sum = add i64 %extent, %less
  %chunks = sdiv i64 %sum, %chunk
  %few = icmp slt i64 %chunks, {1 << CHUNK_BITS}
  br i1 %few, label %begin, label %return
return:
  store atomic i64 0, ptr %owner.at release, align 8
  br label %alone
alone:
  call void %kernel(ptr %table, ptr %bases, i64 0, i64 %extent)
  br label %over
begin:
  {word("kernel.at", KERNEL)}
  {word("table.at", TABLE)}
  {word("bases.at", BASES)}
  {word("extent.at", EXTENT)}
  {word("chunk.at", CHUNK)}
  {word("chunks.at", CHUNKS)}
  {word("remaining.at", REMAINING)}
  {word("claim.at", CLAIM)}
  {word("spins.at", OWNER_SPINS)}
  {word("acquire.at", ACQUIRE)}
  {word("lock.at", OWNER_LOCK)}
  {word("sleeps", OWNER_SLEEPS)}
  store ptr %kernel, ptr %kernel.at, align 8
  store ptr %table, ptr %table.at, align 8
  store ptr %bases, ptr %bases.at, align 8
  store i64 %extent, ptr %extent.at, align 8
  store i64 %chunk, ptr %chunk.at, align 8
  store i64 %chunks, ptr %chunks.at, align 8
  store atomic i64 %chunks, ptr %remaining.at monotonic, align 8
  %last = load atomic i64, ptr %claim.at monotonic, align 8
  %last.job = lshr i64 %last, {CHUNK_BITS}
  %raised = add i64 %last.job, 1
  %job = and i64 %raised, {(1 << 64 - CHUNK_BITS) - 1}
  %shifted = shl i64 %job, {CHUNK_BITS}
  %claim = or i64 %shifted, %chunks
  store atomic i64 %claim, ptr %claim.at seq_cst, align 8
  %much = icmp sge i64 %chunks, {MUCH_WORK}
  br i1 %much, label %wake, label %work
wake:
  call void @wake_two(ptr %team, i64 0, i64 2)
  br label %work
work:
  call void @share(ptr %team, i64 %job)
  %spins = load i64, ptr %spins.at, align 8
  br label %look
look:
  %turns = phi i64 [ 0, %work ], [ %turn, %pause ], [ 0, %wait ]
  %remaining = load atomic i64, ptr %remaining.at acquire, align 8
  %finished = icmp eq i64 %remaining, 0
  br i1 %finished, label %leave, label %idle
idle:
  %turn = add i64 %turns, 1
  %tired = icmp sgt i64 %turn, %spins
  br i1 %tired, label %lie_down, label %pause
pause:
  {pause}
  br label %look
lie_down:
  store atomic i64 1, ptr %sleeps seq_cst, align 8
  %again = load atomic i64, ptr %remaining.at seq_cst, align 8
  %late = icmp eq i64 %again, 0
  br i1 %late, label %get_up, label %wait
get_up:
  %cleared = cmpxchg ptr %sleeps, i64 1, i64 0 seq_cst seq_cst
  %up = extractvalue {{ i64, i1 }} %cleared, 1
  br i1 %up, label %leave, label %wait
wait:
  %acquire = load ptr, ptr %acquire.at, align 8
  %lock = load ptr, ptr %lock.at, align 8
  %acquired = call i32 %acquire(ptr %lock, i32 1)
  br label %look
leave:
  store atomic i64 0, ptr %owner.at release, align 8
  br label %over
over:
  ret void
}}

define internal void @summon(ptr %team) nounwind {{
entry:
  call void @wake_two(ptr %team, i64 0, i64 2)
  ret void
}}

define internal void @dismiss(ptr %team) nounwind {{
entry:
  {word("quit.at", QUIT)}
  {word("workers.at", WORKERS)}
  store atomic i64 1, ptr %quit.at seq_cst, align 8
  %workers = load i64, ptr %workers.at, align 8
  br label %pair
pair:
  %first = phi i64 [ 0, %entry ], [ %next, %call ]
  %more = icmp slt i64 %first, %workers
  br i1 %more, label %call, label %over
call:
  call void @wake_two(ptr %team, i64 %first, i64 2)
  %next = add i64 %first, 2
  br label %pair
over:
  ret void
}}

define void @team_functions(ptr %addresses) nounwind {{
entry:
  %summon.at = getelementptr i64, ptr %addresses, i64 1
  %dismiss.at = getelementptr i64, ptr %addresses, i64 2
  %worker.at = getelementptr i64, ptr %addresses, i64 3
  %spin.at = getelementptr i64, ptr %addresses, i64 4
  store ptr @parallel, ptr %addresses, align 8
  store ptr @summon, ptr %summon.at, align 8
  store ptr @dismiss, ptr %dismiss.at, align 8
  store ptr @worker, ptr %worker.at, align 8
  store ptr @spin, ptr %spin.at, align 8
  ret void
}}
"""
