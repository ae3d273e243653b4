// Package convstore keeps conversations: a tree of append-only event logs in one bbolt file that
// many short-lived processes share.
//
// Open returns a Store, for what people do. The View in it reads. Store.Lock and Scope.Log return
// the Log of one conversation, for the process that runs it; only one process can at a time.
// Log.Below returns the Scope of an agent, which sees its strict descendants and delegates to them:
// Reserve, then Settle. Code that serves an agent holds a Log and a Scope and never the Store.
//
// # What to know before changing anything
//
// Nothing stays locked. Each call locks the file, does one transaction, and unlocks it; a process
// that kept the lock would keep all others out. The file itself stays open for a moment, for the
// next call. So a function that is called inside a transaction (by Store.Edit or Scope.Reserve)
// must not call the store: it would wait for itself until the deadline.
//
// There are two kinds of lock. The store's lock is held for one transaction, and others wait for
// it. A conversation's run lock is held while the conversation runs, and nobody waits for it: it is
// tried, and the call fails if another process holds it. The run lock is needed only to append
// events. It may be tried while the store's lock is held, and so there is no deadlock.
//
// Goroutines that write to one Store at the same time share a transaction and its flush. Each
// method returns after the flush, and fails alone.
//
// Counts are updated by the transaction that changes what they count, so that a listing reads no
// events. What could become wrong without a transaction is computed when it is read: see Status.
// Store.Check checks all counts.
//
// Four packages below this one know nothing of conversations: internal/file has the folder and its
// locks, internal/page the pages of bbolt's file, internal/db the transactions and the names of
// buckets and keys, internal/stored the record of an event without its body. Three packages are
// above it: archive exports and imports conversations, search finds lines in them, and usage says
// what they have used. Only these three can use transactions, through View.Inside.
//
// # The folder
//
//	store.db        the bbolt file below
//	.unfinished*    an unfinished store.db: the first one, or that of Compact
//	gate            flock: whoever wants the store passes here one by one
//	runs            run locks: on Linux one lock on the byte at offset id,
//	                elsewhere a folder with one locked file per conversation;
//	                far above the ids stands, and above those claims
//	slots           slots: on Linux locks on the bytes from offset 2048 times the
//	                root's id on, elsewhere a folder for each root with files
//	stops           locks of those who ask for the end of a run, as in runs
//	workspace.json  whose store this is, for Locate
//
// # The file
//
// Integers are big-endian: u8, u32, u64. The word id means a conversation's ID as u64, secs a time
// in seconds since 1970 with the sign bit inverted, digest 32 bytes, and text all bytes to the end.
//
//	bucket         key         value
//	meta           "schema"    u64          version of this drawing
//	meta           "last"      u64          the id that was allocated last
//	conversations  id          json         see below
//	listing        id          entry        the same in short, see listing.go
//	roots          id          nothing      those without a parent
//	children       id id       u8           parent, child: Link
//	configs        id          config       JSON array of tool names, newline, opaque bytes
//	events         id u64      event        by sequence number from 1, see internal/stored
//	event_ids      id text     u64          event id: sequence number
//	turns          id u32      u64          turn from 1: sequence number of its first event
//	turns          id u32      u64 digest   the same, if its end answers what has that digest
//	answers        digest id u32  nothing   those turns, see Answer
//	delegations    id u64      json         root of the ledger, number: Delegation
//	calls          id text     id u64 u32   caller, tool call: the delegation's key, the caller's turn
//	open           id u64      open         unsettled delegations: child, caller and more, see account.go
//	expiring       secs id     nothing      conversations that expire
//	sessions       text        json         members active, previous, since
//	imported       id          json         what came with an imported conversation and is not used: Imported
//	imports        id          u64 json     being imported: the import, its record and what goes to imported
//	imports        id u64      u64 json     the same of a delegation: root of the ledger, place in it
//
// The number of a delegation is the sequence of its bucket. A conversation has these members,
// without those that are zero:
//
//	parent link depth title hidden pinned archived_at expires_at labels allowed
//	created_at updated_at profile profile_arg profile_hash model role grant
//	last_seq events turns children hidden_children usage cost_nano unpriced
//	turn_open no_agent asked state reason run last run_state run_reason
//	until hold limits since below call made after foreign imported
//
// An import takes many transactions. It first writes the events, event_ids and turns of its
// conversations, and all the rest in the last transaction. Until then, imports lists what it has
// written, under the import's own id, and the import holds the run lock of that id. If nobody holds
// that lock, the import was cut off, and the next one removes what it wrote.
//
// The rule for changing the drawing: what has been released never gets another meaning. It may get a
// member that older versions can drop, or a kind of event that they can ignore. Any other change
// raises schemaVersion and adds a migration, with a test that begins with a store of the version
// before. A store from a later version is refused with a *SchemaError.
package convstore
