package profiles

import (
	"errors"

	"jp/profiles/fault"
)

// ErrNotFound is wrapped by the *Error for a profile name or a --cfg path that leads to no file.
var ErrNotFound = errors.New("not found")

// ErrNoWorkspace is returned, wrapped, by FindWorkspace when no folder up to the root holds .jp.
var ErrNoWorkspace = errors.New("no workspace")

// ErrWithheld is wrapped by the *Error for a file of a workspace whose files are not to be read:
// see Sources.Files.
var ErrWithheld = errors.New("the workspace is not trusted")

// ErrModel is wrapped by the *Error of Config.RequireModel.
var ErrModel = errors.New("no model")

// Error is every error of loading config.
type Error = fault.Error

// Position says where a value was written. The zero Position is the program's defaults.
type Position = fault.Position
