package convstore

import "jp/convstore/internal/file"

// Env is the environment of Locate. The zero Env has no variables.
type Env = file.Env

// Locate returns the folder of a workspace's store: $JP_STORE, else Env.Override, else a folder
// below $XDG_STATE_HOME/jp with the name of the workspace and a hash of its path. A renamed
// workspace is recognised by its .jp folder and keeps its store. If another workspace was made at
// its old path and took the store, Locate fails with a *TakenError.
//
// It creates nothing. Open checks whether a store may be in that folder.
func Locate(env Env, workspace string) (string, error) { return file.Locate(env, workspace) }

// Disk describes the file system of a folder, as far as it matters to a store.
type Disk = file.Disk

// DiskOf returns the Disk of dir, which need not exist. It writes nothing.
func DiskOf(dir string) (Disk, error) { return file.DiskOf(dir) }

// PlaceError says why a store must not be at Path.
type PlaceError = file.PlaceError

// TakenError says that the store Dir, which belonged to Workspace, now belongs to another
// workspace, By. Adopt takes it back, Leave gives it up.
type TakenError = file.TakenError

// ErrGone says that the store's file was removed, or its folder moved, while this process used the
// store. No new store is made in its place by this process.
var ErrGone = file.ErrGone

// Slots bounds how many sub-agents of one tree work at the same time.
type Slots = file.Slots

// Slot is one slot that this process holds. It is not safe for concurrent use.
type Slot = file.Slot

// MaxSlots is the most sub-agents of one tree that may work at the same time.
const MaxSlots = file.MaxSlots
