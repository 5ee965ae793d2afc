"""Sharing: the text of the functions that share the ranges of kernels out among threads.

A *job* is a region: launches that do not depend on each other, each divided into chunks. All chunks of a region are
numbered in one row. Everything that happens per region is native code on one block of memory:

=============  =====================================================================================================
word           meaning
=============  =====================================================================================================
``OWNER``      1 while a thread has the team. Others that come meanwhile do not wait: they work alone
``CLAIM``      number of the job, and the first and the last of the chunks that nobody has begun. A chunk is taken from
               one of the two ends with a compare-exchange that fails if the job is over, so a worker may look at any
               time and is never waited for unless it has a chunk; from then on the words of the job stay as they are
``REMAINING``  chunks that are not finished; whoever finishes the last one wakes the launching thread if it sleeps
``QUIT``       1 when workers should end
``PENALTY``    for how long everybody works alone after the next time that a worker was held up, and until when now
=============  =====================================================================================================

A worker without work looks at ``CLAIM`` for some microseconds and then sleeps on a lock of its own. Waking it takes
longer than many kernels run, so sleepers are woken for much work only: by a row of launches that has much to do when it
begins, or by a single region with many chunks, or one that took long the last times. They are woken along a tree: the
launching thread wakes two, each of these two more.

The launching thread takes chunks from the first on, the first worker from the last on, and so on in turns. So the same
part of an array is mostly in the hands of the same processor, one kernel after the other, and stays in its cache.

On a machine with more work than processors a worker may be held up in the middle of a chunk, for milliseconds, and a
thread that looks for work takes time from others, perhaps from the one it waits for. Threads notice: a launching thread
waits too long for a worker, or a region takes it much longer than it once did, or the clock jumps while a worker looks
for work.
Everybody then works alone for a while. It doubles each time that this happens again soon after; where all went well for
some milliseconds in between, it shrinks.
"""

from __future__ import annotations

__all__ = [
    "ACQUIRE",
    "ALONE_UNTIL",
    "CLAIM",
    "FIRST_WORKER",
    "GAP",
    "LAUNCH_WORDS",
    "LEAST_PENALTY",
    "LOCK",
    "MOST_CHUNKS",
    "MOST_PENALTY",
    "MUCH_WORK",
    "OWNER_LOCK",
    "PARALLEL",
    "PATIENCE",
    "PENALTY",
    "REGION_WORDS",
    "RELEASE",
    "SLEEPS",
    "SLOW",
    "SPINS",
    "SUMMON",
    "WORKERS",
    "WORKER_WORDS",
    "team_text",
]

#: chunks (of 2 to 10 us) that are worth waking up workers
MUCH_WORK = 12

#: words of a worker. Words that different threads write lie two cache lines apart, because processors fetch pairs
WORKER_WORDS = 16
#: words of a team's memory, and of a worker's part of it
PARALLEL, SUMMON, WORKERS, SPINS, PATIENCE, GAP, SLOW, LEAST_PENALTY, MOST_PENALTY, ACQUIRE, RELEASE, OWNER_LOCK = (
    range(12)
)
OWNER, CLAIM, JOB, REMAINING, OWNER_SLEEPS, QUIT, PENALTY, FIRST_WORKER = [WORKER_WORDS * line for line in range(1, 9)]
LAUNCHES, BASES = range(JOB, JOB + 2)
ALONE_UNTIL = PENALTY + 1
SLEEPS, LOCK = 0, 1

#: words of a region: where its launches stand, how many there are, how many chunks they have, and the shortest time
#: that the launching thread has worked on it so far
REGION_WORDS = 4
#: words of a launch: where the address of the kernel stands, its table, extent, size of a chunk, number of chunks
LAUNCH_WORDS = 5

#: least times of working alone that are soon after the last one
SOON = 2

#: bits of CLAIM that count chunks from either end; the remaining 16 number the jobs
CHUNK_BITS = 24
#: chunks that a region may have
MOST_CHUNKS = 1 << CHUNK_BITS - 1

_CHUNK_MASK = (1 << CHUNK_BITS) - 1

_PAUSES = {
    "x86_64": ("declare void @llvm.x86.sse2.pause()", "call void @llvm.x86.sse2.pause()"),
    "aarch64": ("declare void @llvm.aarch64.isb(i32)", "call void @llvm.aarch64.isb(i32 15)"),
}


def team_text(machine: str) -> str:
    """Return the text of the team's functions for a machine (as ``platform.machine()`` names it).

    ``parallel`` runs the launches of a region, ``summon`` wakes workers up, ``worker`` is the life of one, ``dismiss``
    ends it, ``spin`` waits for some turns, and ``clock`` returns the time.
    """
    declaration, pause = _PAUSES.get({"amd64": "x86_64", "arm64": "aarch64"}.get(machine.lower(), machine), ("", ""))

    def word(name: str, offset: int, pointer: str = "%team") -> str:
        return f"%{name} = getelementptr i64, ptr {pointer}, i64 {offset}"

    return f"""
{declaration}
declare i64 @llvm.readcyclecounter()

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

; runs the launches of a region one after the other
define internal void @alone(ptr %launches, i64 %count, ptr %bases) nounwind {{
entry:
  br label %look
look:
  %index = phi i64 [ 0, %entry ], [ %next, %run ]
  %more = icmp slt i64 %index, %count
  br i1 %more, label %run, label %over
run:
  %offset = mul i64 %index, {LAUNCH_WORDS}
  %launch = getelementptr i64, ptr %launches, i64 %offset
  {word("table.at", 1, "%launch")}
  {word("extent.at", 2, "%launch")}
  %cell = load ptr, ptr %launch, align 8
  %kernel = load ptr, ptr %cell, align 8
  %table = load ptr, ptr %table.at, align 8
  %extent = load i64, ptr %extent.at, align 8
  call void %kernel(ptr %table, ptr %bases, i64 0, i64 %extent)
  %next = add i64 %index, 1
  br label %look
over:
  ret void
}}

; runs a chunk of a region, which is counted through all its launches
define internal void @run_chunk(ptr %launches, ptr %bases, i64 %number) nounwind {{
entry:
  br label %look
look:
  %launch = phi ptr [ %launches, %entry ], [ %following, %skip ]
  %index = phi i64 [ %number, %entry ], [ %rest, %skip ]
  {word("chunks.at", 4, "%launch")}
  %chunks = load i64, ptr %chunks.at, align 8
  %here = icmp slt i64 %index, %chunks
  br i1 %here, label %run, label %skip
skip:
  %rest = sub i64 %index, %chunks
  %following = getelementptr i64, ptr %launch, i64 {LAUNCH_WORDS}
  br label %look
run:
  {word("table.at", 1, "%launch")}
  {word("extent.at", 2, "%launch")}
  {word("chunk.at", 3, "%launch")}
  %cell = load ptr, ptr %launch, align 8
  %kernel = load ptr, ptr %cell, align 8
  %table = load ptr, ptr %table.at, align 8
  %extent = load i64, ptr %extent.at, align 8
  %chunk = load i64, ptr %chunk.at, align 8
  %begin = mul i64 %index, %chunk
  %after = add i64 %begin, %chunk
  %inside = icmp slt i64 %after, %extent
  %end = select i1 %inside, i64 %after, i64 %extent
  call void %kernel(ptr %table, ptr %bases, i64 %begin, i64 %end)
  ret void
}}

; takes chunks of a job from one end and runs them until there is none left, or another job has begun; returns how many
define internal i64 @share(ptr %team, i64 %job, i1 %from_end) nounwind {{
entry:
  {word("claim.at", CLAIM)}
  {word("launches.at", LAUNCHES)}
  {word("bases.at", BASES)}
  br label %look
look:
  %finished = phi i64 [ 0, %entry ], [ %finished, %take ], [ %more, %run ]
  %claim = load atomic i64, ptr %claim.at monotonic, align 8
  %number = lshr i64 %claim, {2 * CHUNK_BITS}
  %same = icmp eq i64 %number, %job
  %shifted = lshr i64 %claim, {CHUNK_BITS}
  %end = and i64 %shifted, {_CHUNK_MASK}
  %first = and i64 %claim, {_CHUNK_MASK}
  %some = icmp ult i64 %first, %end
  %both = and i1 %same, %some
  br i1 %both, label %take, label %count
take:
  %last = sub i64 %end, 1
  %without_last = sub i64 %claim, {1 << CHUNK_BITS}
  %without_first = add i64 %claim, 1
  %index = select i1 %from_end, i64 %last, i64 %first
  %left = select i1 %from_end, i64 %without_last, i64 %without_first
  %exchanged = cmpxchg ptr %claim.at, i64 %claim, i64 %left acq_rel monotonic
  %mine = extractvalue {{ i64, i1 }} %exchanged, 1
  br i1 %mine, label %run, label %look
run:
  %launches = load ptr, ptr %launches.at, align 8
  %bases = load ptr, ptr %bases.at, align 8
  call void @run_chunk(ptr %launches, ptr %bases, i64 %index)
  %more = add i64 %finished, 1
  br label %look
count:
  %any = icmp sgt i64 %finished, 0
  br i1 %any, label %subtract, label %over
subtract:
  {word("remaining.at", REMAINING)}
  %before = atomicrmw sub ptr %remaining.at, i64 %finished seq_cst
  %is_last = icmp eq i64 %before, %finished
  br i1 %is_last, label %end_job, label %over
end_job:
  ; by now another thread may have the team: waking it for nothing is allowed for
  {word("sleeps", OWNER_SLEEPS)}
  {word("lock.at", OWNER_LOCK)}
  %lock = load ptr, ptr %lock.at, align 8
  call void @wake(ptr %team, ptr %sleeps, ptr %lock)
  br label %over
over:
  ret i64 %finished
}}

; whether everybody is to work alone for some time
define internal i1 @is_apart(ptr %team, i64 %now) nounwind {{
entry:
  {word("until.at", ALONE_UNTIL)}
  %until = load atomic i64, ptr %until.at monotonic, align 8
  %apart = icmp ult i64 %now, %until
  ret i1 %apart
}}

; has everybody work alone for a while: twice as long as the last time if that is not long ago, else a quarter of it
define internal void @part(ptr %team) nounwind {{
entry:
  {word("penalty.at", PENALTY)}
  {word("least.at", LEAST_PENALTY)}
  {word("most.at", MOST_PENALTY)}
  {word("until.at", ALONE_UNTIL)}
  %least = load i64, ptr %least.at, align 8
  %most = load i64, ptr %most.at, align 8
  %penalty = load atomic i64, ptr %penalty.at monotonic, align 8
  %last = load atomic i64, ptr %until.at monotonic, align 8
  %now = call i64 @llvm.readcyclecounter()
  %since = sub i64 %now, %last
  %while = mul i64 %least, {SOON}
  %soon = icmp slt i64 %since, %while
  %doubled = shl i64 %penalty, 1
  %quarter = lshr i64 %penalty, 2
  %changed = select i1 %soon, i64 %doubled, i64 %quarter
  %small = icmp slt i64 %changed, %least
  %raised = select i1 %small, i64 %least, i64 %changed
  %large = icmp sgt i64 %raised, %most
  %new = select i1 %large, i64 %most, i64 %raised
  store atomic i64 %new, ptr %penalty.at monotonic, align 8
  %until = add i64 %now, %new
  store atomic i64 %until, ptr %until.at monotonic, align 8
  ret void
}}

define internal void @worker(ptr %team, i64 %index) nounwind {{
entry:
  {word("claim.at", CLAIM)}
  {word("quit.at", QUIT)}
  {word("spins.at", SPINS)}
  {word("gap.at", GAP)}
  {word("acquire.at", ACQUIRE)}
  %spins = load i64, ptr %spins.at, align 8
  %gap = load i64, ptr %gap.at, align 8
  %acquire = load ptr, ptr %acquire.at, align 8
  %offset = mul i64 %index, {WORKER_WORDS}
  %place = add i64 %offset, {FIRST_WORKER}
  %sleeps = getelementptr i64, ptr %team, i64 %place
  {word("lock.at", LOCK, "%sleeps")}
  %lock = load ptr, ptr %lock.at, align 8
  %twice = mul i64 %index, 2
  %child = add i64 %twice, 2
  %odd = and i64 %index, 1
  %from_end = icmp eq i64 %odd, 0
  br label %look
look:
  %seen = phi i64 [ 0, %entry ], [ %job, %work ], [ %seen, %pause ], [ %seen, %stay ], [ %seen, %wait ]
  %turns = phi i64 [ 0, %entry ], [ 0, %work ], [ %turn, %pause ], [ 0, %stay ], [ 0, %wait ]
  %last = phi i64 [ -1, %entry ], [ -1, %work ], [ %now, %pause ], [ -1, %stay ], [ -1, %wait ]
  %quit = load atomic i64, ptr %quit.at monotonic, align 8
  %stop = icmp ne i64 %quit, 0
  br i1 %stop, label %over, label %compare
compare:
  %claim = load atomic i64, ptr %claim.at monotonic, align 8
  %job = lshr i64 %claim, {2 * CHUNK_BITS}
  %new = icmp ne i64 %job, %seen
  br i1 %new, label %found, label %idle
found:
  %shifted = lshr i64 %claim, {CHUNK_BITS}
  %end = and i64 %shifted, {_CHUNK_MASK}
  %first = and i64 %claim, {_CHUNK_MASK}
  %left = sub i64 %end, %first
  ; one chunk is for this thread, others are worth waking two more
  %others = sub i64 %left, 1
  %any = icmp sgt i64 %others, 0
  br i1 %any, label %spread, label %work
spread:
  call void @wake_two(ptr %team, i64 %child, i64 %others)
  br label %work
work:
  %done = call i64 @share(ptr %team, i64 %job, i1 %from_end)
  br label %look
idle:
  %turn = add i64 %turns, 1
  %now = call i64 @llvm.readcyclecounter()
  %latest = add i64 %last, %gap
  %waits = icmp ne i64 %last, -1
  %jumped = icmp ugt i64 %now, %latest
  %held_up = and i1 %waits, %jumped
  br i1 %held_up, label %leave, label %stand
leave:
  call void @part(ptr %team)
  br label %stand
stand:
  %apart = call i1 @is_apart(ptr %team, i64 %now)
  %long = icmp sgt i64 %turn, %spins
  %tired = or i1 %long, %apart
  br i1 %tired, label %lie_down, label %pause
pause:
  {pause}
  br label %look
lie_down:
  ; either this thread sees the new job here, or who began it sees that this thread sleeps
  store atomic i64 1, ptr %sleeps seq_cst, align 8
  %claim.again = load atomic i64, ptr %claim.at seq_cst, align 8
  %quit.again = load atomic i64, ptr %quit.at seq_cst, align 8
  %job.again = lshr i64 %claim.again, {2 * CHUNK_BITS}
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

define internal void @parallel(ptr %team, ptr %region, ptr %bases) nounwind {{
entry:
  {word("owner.at", OWNER)}
  {word("count.at", 1, "%region")}
  {word("chunks.at", 2, "%region")}
  {word("best.at", 3, "%region")}
  %launches = load ptr, ptr %region, align 8
  %count = load i64, ptr %count.at, align 8
  %chunks = load i64, ptr %chunks.at, align 8
  %begun = call i64 @llvm.readcyclecounter()
  %apart = call i1 @is_apart(ptr %team, i64 %begun)
  br i1 %apart, label %alone, label %enter
enter:
  %exchanged = cmpxchg ptr %owner.at, i64 0, i64 1 acq_rel monotonic
  %mine = extractvalue {{ i64, i1 }} %exchanged, 1
  br i1 %mine, label %begin, label %alone
alone:
  call void @alone(ptr %launches, i64 %count, ptr %bases)
  br label %over
begin:
  {word("launches.at", LAUNCHES)}
  {word("bases.at", BASES)}
  {word("remaining.at", REMAINING)}
  {word("claim.at", CLAIM)}
  {word("patience.at", PATIENCE)}
  {word("gap.at", GAP)}
  {word("acquire.at", ACQUIRE)}
  {word("lock.at", OWNER_LOCK)}
  {word("sleeps", OWNER_SLEEPS)}
  store ptr %launches, ptr %launches.at, align 8
  store ptr %bases, ptr %bases.at, align 8
  store atomic i64 %chunks, ptr %remaining.at monotonic, align 8
  %last = load atomic i64, ptr %claim.at monotonic, align 8
  %last.job = lshr i64 %last, {2 * CHUNK_BITS}
  %raised = add i64 %last.job, 1
  %job = and i64 %raised, {(1 << 64 - 2 * CHUNK_BITS) - 1}
  %shifted = shl i64 %job, {2 * CHUNK_BITS}
  %end = shl i64 %chunks, {CHUNK_BITS}
  %claim = or i64 %shifted, %end
  store atomic i64 %claim, ptr %claim.at seq_cst, align 8
  {word("slow.at", SLOW)}
  %slow = load i64, ptr %slow.at, align 8
  %before = load atomic i64, ptr %best.at monotonic, align 8
  %was_slow = icmp ugt i64 %before, %slow
  %many = icmp sge i64 %chunks, {MUCH_WORK}
  %much = or i1 %many, %was_slow
  br i1 %much, label %wake, label %work
wake:
  call void @wake_two(ptr %team, i64 0, i64 2)
  br label %work
work:
  %own = call i64 @share(ptr %team, i64 %job, i1 0)
  ; a worker should need no longer for a chunk than this thread does
  %patience = load i64, ptr %patience.at, align 8
  %gap = load i64, ptr %gap.at, align 8
  %free = call i64 @llvm.readcyclecounter()
  %spent = sub i64 %free, %begun
  %none = icmp eq i64 %own, 0
  %divisor = select i1 %none, i64 1, i64 %own
  %each = udiv i64 %spent, %divisor
  %twice = shl i64 %each, 1
  %allowed = add i64 %twice, %patience
  br label %look
look:
  %remaining = load atomic i64, ptr %remaining.at acquire, align 8
  %finished = icmp eq i64 %remaining, 0
  br i1 %finished, label %calm, label %idle
idle:
  %now = call i64 @llvm.readcyclecounter()
  %waited = sub i64 %now, %free
  %tired = icmp ugt i64 %waited, %allowed
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
  br i1 %up, label %up_again, label %wait
wait:
  %acquire = load ptr, ptr %acquire.at, align 8
  %lock = load ptr, ptr %lock.at, align 8
  %acquired = call i32 %acquire(ptr %lock, i32 1)
  %more = load atomic i64, ptr %remaining.at acquire, align 8
  %woken_early = icmp ne i64 %more, 0
  br i1 %woken_early, label %lie_down, label %up_again
up_again:
  %up.at = call i64 @llvm.readcyclecounter()
  %slept = sub i64 %up.at, %free
  %much_later = icmp ugt i64 %slept, %gap
  br i1 %much_later, label %part, label %leave
part:
  call void @part(ptr %team)
  br label %leave
calm:
  ; this thread itself may have been held up
  %best = load atomic i64, ptr %best.at monotonic, align 8
  %expected = shl i64 %best, 1
  %limit = add i64 %expected, %gap
  %long = icmp ugt i64 %spent, %limit
  %known = icmp ne i64 %best, 0
  %interrupted = and i1 %long, %known
  br i1 %interrupted, label %part, label %time
time:
  %below = icmp ult i64 %spent, %best
  %first = xor i1 %known, 1
  %better = or i1 %below, %first
  br i1 %better, label %note, label %leave
note:
  store atomic i64 %spent, ptr %best.at monotonic, align 8
  br label %leave
leave:
  store atomic i64 0, ptr %owner.at release, align 8
  br label %over
over:
  ret void
}}

define internal void @summon(ptr %team) nounwind {{
entry:
  %now = call i64 @llvm.readcyclecounter()
  %apart = call i1 @is_apart(ptr %team, i64 %now)
  br i1 %apart, label %over, label %wake
wake:
  call void @wake_two(ptr %team, i64 0, i64 2)
  br label %over
over:
  ret void
}}

define internal i64 @clock() nounwind {{
entry:
  %now = call i64 @llvm.readcyclecounter()
  ret i64 %now
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
  %clock.at = getelementptr i64, ptr %addresses, i64 5
  store ptr @parallel, ptr %addresses, align 8
  store ptr @summon, ptr %summon.at, align 8
  store ptr @dismiss, ptr %dismiss.at, align 8
  store ptr @worker, ptr %worker.at, align 8
  store ptr @spin, ptr %spin.at, align 8
  store ptr @clock, ptr %clock.at, align 8
  ret void
}}
"""
