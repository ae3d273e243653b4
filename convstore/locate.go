package convstore

import (
	"jp/convstore/internal/file"
)

// Env is what Locate looks at. The zero Env knows of no variable.
type Env = file.Env

// Locate returns the folder of a workspace's store: $JP_STORE, else the Override, else one below
// $XDG_STATE_HOME/jp that is named after the workspace and a hash of its path. A workspace that was
// renamed is recognised by its .jp folder and keeps its store. One that lost it to another
// workspace, made at the path that it had, gets a *TakenError.
//
// It makes nothing. Open judges whether the place is fit.
func Locate(env Env, workspace string) (string, error) { return file.Locate(env, workspace) }

// Disk is what a folder lies on, as far as it matters to a store.
type Disk = file.Disk

// DiskOf looks at the place of dir, which need not exist. It writes nothing.
func DiskOf(dir string) (Disk, error) { return file.DiskOf(dir) }

// PlaceError says that a store must not be kept at Path, and why.
type PlaceError = file.PlaceError

// TakenError says that the store Dir, which was Workspace's, is that of another workspace, By, now.
// Adopt takes it back, Leave gives it up.
type TakenError = file.TakenError

// ErrGone is wrapped by the error for a store whose file was there and is not any more: it was
// removed, or its folder was moved away. No other store takes its place while this one is in use.
var ErrGone = file.ErrGone

// Slots is the cap on how many sub-agents of one tree work at the same time.
type Slots = file.Slots

// Slot is one taken slot. It is not safe for concurrent use.
type Slot = file.Slot

// MaxSlots is the most sub-agents of one tree that may work at the same time.
const MaxSlots = file.MaxSlots
