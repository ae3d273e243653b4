// Package worker runs sub-agents on other machines. The process that starts them, their owner,
// keeps the store, the models, the slots and the run locks; a node only runs processes and carries
// what they say.
//
//	owner: Pool                                          node: Node.Serve
//	start: lease, workspace, what was trusted ────────►
//	                            ◄──────── up to 64 KiB of anything, then
//	                            ◄──────── jp-worker: protocol, build, host, what differs
//	1 go ─────────────────────────────────────────────►  only now anything runs
//	2 open 1: arguments ──────────────────────────────►  jp query, as here
//	3 in 1, 4 wire 1: stdin, frames of package wire ──►
//	                            ◄──────── 1 started 1, 2 wire 1, 3 out 1, 4 err 1
//	5 credit 1 wire 131072 ───────────────────────────►  and the other way
//	6 stop 1 ─────────────────────────────────────────►  interrupts it
//	                            ◄──────── 5 exit 1: status
//	                            ◄──────── 6 alive 0 1, three times in a lease
//	7 heard 0 1 ──────────────────────────────────────►
//	8 bye ────────────────────────────────────────────►
//	                            ◄──────── or 7 bye 1: why; it begins no channel after 1
//
// A launcher such as ssh or srun starts the node and carries these lines over its stdin and stdout.
// All lines but the first of each side have numbers without a gap; see message. A number that comes
// again changes nothing. Everything else that is not allowed ends the connection.
//
// # Many sub-agents on one connection
//
// A channel is one sub-agent. Its streams are cut into lines of at most 32 KiB, and each has a
// window: so much may be on its way that nobody has read. Who reads a connection never writes to it
// and never waits, so a sub-agent or an owner that does not read stops only its own stream, and
// what is held is bounded.
//
// # End of a node
//
// A node that is to end says bye at once, with the last channel that it has begun, then how each of
// those has ended. Channels after it were on their way: the owner has them run on another node, but
// for one of which this node has said anything already. That is a lie, which ends the connection.
//
// # Lease
//
// Nothing that a launcher says or does shows that a node is gone: srun ends with 0 for a node that
// it has lost. So a node runs things only for a lease, which it asks for again and again; see
// lease. When it hears nothing, it ends its sub-agents and itself within slack. The owner takes a
// node that says nothing for a lease for lost, and knows when what it ran has ended. Until then it
// keeps the run locks and slots. Clocks of both sides count the time for which a machine is
// suspended.
//
// A node that is stopped ends nothing. So its sub-agents, and the guards of their tools, have the
// lease as a file that only the node writes, and end by it themselves; see proc.Lease.
//
// # Trust
//
// The owner tells the node what of the workspace has passed the gate; see trust.Sent. The node runs
// nothing if it has another workspace, and its sub-agents check the files again. A node gets no
// key.
package worker
