// Package proc starts programs and ends them together with everything below them. It is the one way
// jp starts a process and the one way it stops one.
//
// A [Host] runs a [Spec] and returns an [Exit] when the program's whole tree is gone: children it
// left in the background, processes that took a session of their own, daemons that forked twice.
// Ending the context asks the tree to stop, waits a bounded time, and kills. [Host.Kill] kills at
// once.
//
// # Three kinds of program
//
// An [Agent] is another jp. It is a direct child in a process group of its own, holds the read end
// of a pipe (the death pipe) whose only write end is its parent's, and sweeps what is below itself
// when that pipe ends ([Inherited.Watch]).
//
// A [Tool] is any other program and is not trusted to do that. Between jp and the tool is a guard:
// jp executed again as "toolguard __guard" ([Guard]). It starts the tool in a session of its own,
// with descriptors 0, 1 and 2 and nothing else, waits for it, ends what it left behind, reports,
// and exits.
//
// A [Launcher] is a program outside of jp's trust like a tool, such as ssh or srun, which starts
// something elsewhere and ends it when it is ended itself. Its stdin and stdout are pipes of
// jp's, and nothing confines it. It is ended by the end of its stdin; a grace later by SIGINT; a
// grace later it is killed. Where a signal has ended it, Spec.Stop runs. Its guard counts the
// time, so that all of this happens without jp too. An srun that is killed at once leaves its
// task running. One that a signal has ended therefore also has the grace for the processes that
// it left.
//
//	jp ──┬── guard ──── tool ──┬── its child
//	     │     └─ orphans of the tool, wherever they went
//	     ├── guard ──── launcher (ssh) ~~~ another machine
//	     └── jp (agent) ── guard ── tool
//
// # How nothing is left
//
// Every jp with children and every guard is a child subreaper: a process whose parent dies becomes
// the child of the nearest one above it, whatever session or group it moved to, so the kernel's own
// list of children is a complete list of what is left. A sweep stops everything it can see below (a
// stopped process cannot fork), kills it, collects it, and looks again until the kernel says that
// there is no child left.
//
// Processes that fork and exit faster than a sweep looks escape it. What is confined is therefore
// killed at once first, by the thread that is confined with it, whose signals Landlock keeps inside
// (Linux 6.12).
//
//	what dies        who notices                   who sweeps
//	tool             guard (its parent)            guard
//	guard            jp (its parent)               jp, which adopted the tool's tree
//	jp               its guards and agents (EOF)   each guard, each agent; that of a launcher
//	                                               after two times its grace
//	agent            parent jp, its guards (EOF)   both
//	a [Lease]        its agents, their guards      both, each by its own clock
//
// # Confinement
//
// What a tool can touch is its [Confine]. The guard makes the rules, confines one thread of its own
// by them, starts the tool from that thread and gives the thread up. The guard itself is not
// confined: otherwise it could not end what confined processes leave behind. A failure on the way
// keeps the tool from starting.
//
// Files are confined by Landlock, as are signals, tracing, the /proc entries of processes outside
// and abstract sockets; no network is a filter of system calls, since Landlock does not know of
// UDP, raw sockets and sockets that are files. [Enforceable] returns what of it this system has.
//
// Not confined are what stat shows of files, their modes, owners and times, System V shared memory
// and message queues, the arguments and environment that the tool is given, and the use of time,
// memory and processes. A tool with Network reaches everything that listens, with the services of
// this machine and sockets that are files.
//
// # Limits
//
// Not ended: a process started by a service outside the tree on the tool's behalf (systemd, cron,
// docker, at); one that runs as another user and may not be signalled, which Run reports
// ([LeftError]); one stuck in the kernel, reported the same way; and of a tool's tree all but its
// first process when its guard and the jp above are killed at the same moment. Guards are called
// "toolguard", so that killing everything called jp does not kill them. A guard that removes a large
// folder goes on with it after a Run that was stopped, until its jp ends below another one, whose
// sweep ends it. The rest of the folder stays until a Host of another process runs a tool with such
// a folder. A tool runs as the same user as jp and can kill or stop both unless it is confined.
//
// On systems other than Linux there is no subreaper and no list of children. A guard and the death
// pipe still work, and a tool's own process group is ended when it ends, when it is stopped and
// when jp dies; a process that left that group is not found.
//
// # For callers
//
//   - The first line of main, and of TestMain in tests that run tools, is
//     proc.Guard(os.Args).
//   - The kernel has one list of children per process. Once a Host has run something, a child of
//     the process that no Host started counts as an orphan. It is ended by Close, at the end of an
//     agent, and when a guard died. Children that were there before the first run are left alone.
//     Start an editor or a pager before the first run or after Close, never beside one.
//   - With its first run the process becomes a subreaper and not dumpable (no core
//     file, no debugger of the same user), and every inherited descriptor above
//     2 becomes close-on-exec.
package proc
