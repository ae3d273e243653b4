//go:build !linux

package files

import (
	"errors"
	"io/fs"
	"os"
)

// Unnamed returns errors.ErrUnsupported: this system has no files without a name.
func Unnamed(*os.File, fs.FileMode) (*os.File, error) { return nil, errors.ErrUnsupported }

// LinkUnnamed returns errors.ErrUnsupported.
func LinkUnnamed(_, _ *os.File, _ string) error { return errors.ErrUnsupported }
